"""Products by weights in blocks as programs, in every form that people keep such weights in."""

from dataclasses import dataclass

import numpy as np

__all__ = ["FORMS", "Form"]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A way to keep weights: what GGUF and ONNX call each is its name in `FORMS`.

    Attributes:
        bits: of a code.
        group: neighbours that share a scale; 0 for all of an output's.
        span: of four bits, how many neighbours lie in half as many bytes.
        zero: what is taken from a code.
        least: whether something is added to each group.
        scale: the type of the scales.
    """

    bits: int
    group: int = 0
    span: int = 32
    zero: float = 0.0
    least: bool = False
    scale: str = "f16"

    def numbers(self, outputs: int, inner: int, seed: int = 0) -> dict[str, np.ndarray]:
        """Random codes (as bytes lie), scales and least values."""
        rng = np.random.default_rng(seed)
        groups = inner // (self.group or inner)
        bytes_ = (outputs, inner * self.bits // 8)
        kind = np.dtype({"f16": np.float16, "f32": np.float32}[self.scale])
        found = {
            "codes": rng.integers(-128, 128, bytes_, np.int8),
            "scale": rng.uniform(0.01, 0.1, (outputs, groups)).astype(kind),
        }
        if self.least:
            found["least"] = rng.uniform(-1, 1, (outputs, groups)).astype(kind)
        return found

    def weights(self, numbers: dict[str, np.ndarray], inner: int) -> np.ndarray:
        """What they mean, in f64, code by code."""
        codes = numbers["codes"]
        outputs, group = len(codes), self.group or inner
        result = np.zeros((outputs, inner))
        for i in range(inner):
            if self.bits == 8:
                whole = codes[:, i].astype(int)
            else:
                run, within = divmod(i, self.span)
                half = self.span // 2
                byte = codes[:, run * half + within % half].view(np.uint8)
                whole = (byte >> 4 if within >= half else byte & 15).astype(int)
            value = (whole - self.zero) * numbers["scale"][:, i // group].astype(float)
            if self.least:
                value = value + numbers["least"][:, i // group].astype(float)
            result[:, i] = value
        return result

    def text(self, rows: int, outputs: int, inner: int, tail: str = "") -> str:
        """A program `main(x, codes, scale[, least])`; `tail` makes `%result` of `%product`."""
        group = self.group or inner
        half = self.span // 2
        packed = (outputs, inner) if self.bits == 8 else (outputs, inner // self.span, half)
        cut = (outputs, inner // group, group)
        numbers = (outputs, inner // group)
        kinds = {"codes": _kind((outputs, inner * self.bits // 8), "i8")}
        kinds["scale"] = _kind(numbers, self.scale)
        if self.least:
            kinds["least"] = _kind(numbers, self.scale)
        wide, result = _kind(cut, "f32"), _kind((rows, outputs), "f32")
        lines = [f"%b = stablehlo.reshape %codes : ({kinds['codes']}) -> {_kind(packed, 'i8')}"]
        if self.bits == 4:
            some, run = _kind(packed, "i8"), _kind((*packed[:2], self.span), "i8")
            lines += [
                f"%m = stablehlo.constant dense<15> : {some}",
                f"%s = stablehlo.constant dense<4> : {some}",
                f"%low = stablehlo.and %b, %m : {some}",
                f"%high = stablehlo.shift_right_logical %b, %s : {some}",
                f"%both = stablehlo.concatenate %low, %high, dim = 2 : ({some}, {some}) -> {run}",
                f"%q = stablehlo.reshape %both : ({run}) -> {_kind(cut, 'i8')}",
            ]
        else:
            lines.append(
                f"%q = stablehlo.reshape %b : ({_kind(packed, 'i8')}) -> {_kind(cut, 'i8')}"
            )
        lines.append(f"%w0 = stablehlo.convert %q : ({_kind(cut, 'i8')}) -> {wide}")
        if self.zero:
            lines += [
                f"%z = stablehlo.constant dense<{self.zero}> : {wide}",
                f"%w1 = stablehlo.subtract %w0, %z : {wide}",
            ]
        value = "%w1" if self.zero else "%w0"
        for part, operation in (("scale", "multiply"), ("least", "add")):
            if part in kinds:
                lines += [
                    f"%{part}_f = stablehlo.convert %{part} : ({kinds[part]}) -> "
                    f"{_kind(numbers, 'f32')}",
                    f"%{part}_b = stablehlo.broadcast_in_dim %{part}_f, dims = [0, 1] : "
                    f"({_kind(numbers, 'f32')}) -> {wide}",
                    f"%{part}_w = stablehlo.{operation} {value}, %{part}_b : {wide}",
                ]
                value = f"%{part}_w"
        matrix, left = _kind((outputs, inner), "f32"), _kind((rows, inner), "f32")
        lines += [
            f"%w = stablehlo.reshape {value} : ({wide}) -> {matrix}",
            f"%product = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : "
            f"({left}, {matrix}) -> {result}",
            *([tail] if tail else []),
        ]
        arguments = ", ".join(
            [f"%x: {left}", *(f"%{name}: {kind}" for name, kind in kinds.items())]
        )
        body = "\n  ".join(lines)
        returned = "%result" if tail else "%product"
        return (
            f"func.func public @main({arguments}) -> {result} {{\n  {body}\n"
            f"  return {returned} : {result}\n}}\n"
        )


FORMS = {
    "int8": Form(bits=8, scale="f32"),
    "Q8_0": Form(bits=8, group=32),
    "Q4_0": Form(bits=4, group=32, zero=8.0),
    "Q4_1": Form(bits=4, group=32, least=True),
    "Q5_1": Form(bits=8, group=32, least=True),
    "Q4_K": Form(bits=4, group=32, least=True, scale="f32"),
    "Q6_K": Form(bits=8, group=16, scale="f32"),
    "MatMulNBits": Form(bits=4, group=32, span=2, zero=8.0, scale="f32"),
    "int4-g64": Form(bits=4, group=64, zero=8.0),
    "int4-g128": Form(bits=4, group=128, least=True),
    "int4": Form(bits=4, zero=8.0, scale="f32"),
}


def _kind(sizes: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"
