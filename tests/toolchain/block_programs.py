"""Products by weights in blocks as programs, in every form that people keep such weights in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["FORMS", "Form", "in_turn"]


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
        shared: how many neighbouring groups have one factor (f32) of scales and least values,
            which are bytes then; 0 for none.
    """

    bits: int
    group: int = 0
    span: int = 32
    zero: float = 0.0
    least: bool = False
    scale: str = "f16"
    shared: int = 0

    def fitting(self, inner: int) -> int:
        """A size that factors allow, not below this one."""
        whole = self.group * self.shared or 1
        return -(-inner // whole) * whole

    def _names(self) -> dict[str, str]:
        """Scales and least values with their factors: the type of each."""
        found = {}
        for name in ("scale", *(["least"] if self.least else [])):
            found |= {name: "i8", f"{name}_factor": "f32"} if self.shared else {name: self.scale}
        return found

    def numbers(self, outputs: int, inner: int, seed: int = 0) -> dict[str, np.ndarray]:
        """Random codes (as bytes lie), scales and least values."""
        rng = np.random.default_rng(seed)
        groups = inner // (self.group or inner)
        bytes_ = (outputs, inner * self.bits // 8)
        found = {"codes": rng.integers(-128, 128, bytes_, np.int8)}
        for name, kind in self._names().items():
            if kind == "i8":
                found[name] = rng.integers(-128, 128, (outputs, groups), np.int8)
                continue
            sizes = (outputs, groups // self.shared) if self.shared else (outputs, groups)
            low, high = (0.01, 0.1) if name.startswith("scale") else (-1, 1)
            wide = np.dtype({"f16": np.float16, "f32": np.float32}[kind])
            found[name] = rng.uniform(low, high, sizes).astype(wide)
        return found

    def _number(self, numbers: dict[str, np.ndarray], name: str, group: int) -> np.ndarray:
        """A group's scale or least value of each output."""
        found = numbers[name][:, group].astype(float)
        if self.shared:
            found = found * numbers[f"{name}_factor"][:, group // self.shared].astype(float)
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
            value = (whole - self.zero) * self._number(numbers, "scale", i // group)
            if self.least:
                value = value + self._number(numbers, "least", i // group)
            result[:, i] = value
        return result

    def text(self, rows: int, outputs: int, inner: int, tail: str = "") -> str:
        """A program `main(x, codes, scale…)`; `tail` makes `%result` of `%product`."""
        group = self.group or inner
        half = self.span // 2
        packed = (outputs, inner) if self.bits == 8 else (outputs, inner // self.span, half)
        cut = (outputs, inner // group, group)
        numbers = (outputs, inner // group)
        kinds = {"codes": _kind((outputs, inner * self.bits // 8), "i8")}
        together = (outputs, numbers[1] // (self.shared or 1), self.shared)
        for name, kind in self._names().items():
            few = together[:2] if name.endswith("_factor") else numbers
            kinds[name] = _kind(few, kind)
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
                floats = _kind(numbers, "f32")
                lines.append(f"%{part}_c = stablehlo.convert %{part} : ({kinds[part]}) -> {floats}")
                made = f"%{part}_c"
                if self.shared:
                    each = _kind(together, "f32")
                    lines += [
                        f"%{part}_g = stablehlo.broadcast_in_dim %{part}_factor, dims = [0, 1] : "
                        f"({kinds[f'{part}_factor']}) -> {each}",
                        f"%{part}_h = stablehlo.reshape %{part}_g : ({each}) -> {floats}",
                        f"%{part}_f = stablehlo.multiply %{part}_c, %{part}_h : {floats}",
                    ]
                    made = f"%{part}_f"
                lines += [
                    f"%{part}_b = stablehlo.broadcast_in_dim {made}, dims = [0, 1] : "
                    f"({floats}) -> {wide}",
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

    def by_constants(self, rows: int, outputs: int, inner: int) -> str:
        """The program whose weights are constants in it."""
        text = self.text(rows, outputs, inner)
        for name, array in self.numbers(outputs, inner).items():
            kind = {"int8": "i8", "float16": "f16"}.get(str(array.dtype), "f32")
            sizes = "x".join(map(str, array.shape))
            data = np.ascontiguousarray(array).tobytes().hex().upper()
            text = text.replace(f", %{name}: tensor<{sizes}x{kind}>", "").replace(
                "{\n",
                f'{{\n  %{name} = stablehlo.constant dense<"0x{data}"> : tensor<{sizes}x{kind}>\n',
                1,
            )
        return text


FORMS = {
    "int8": Form(bits=8, scale="f32"),
    "Q8_0": Form(bits=8, group=32),
    "Q4_0": Form(bits=4, group=32, zero=8.0),
    "Q4_1": Form(bits=4, group=32, least=True),
    "Q5_1": Form(bits=8, group=32, least=True),
    "Q4_K": Form(bits=4, group=32, least=True, shared=8),
    "Q5_K": Form(bits=8, group=32, least=True, shared=8),
    "Q6_K": Form(bits=8, group=16, shared=16),
    "Q4_K written out": Form(bits=4, group=32, least=True, scale="f32"),
    "MatMulNBits": Form(bits=4, group=32, span=2, zero=8.0, scale="f32"),
    "int4-g64": Form(bits=4, group=64, zero=8.0),
    "int4-g128": Form(bits=4, group=128, least=True),
    "int4": Form(bits=4, zero=8.0, scale="f32"),
}


def _kind(sizes: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def in_turn(number: int, *kinds: Sequence[str]) -> list[str]:
    """One size of each kind for the form of that number: every pair of them comes."""
    return [sizes[(number >> place) % len(sizes)] for place, sizes in enumerate(kinds)]
