"""The products of a language model, and nothing else of it, as modules with weights of a scheme.

The weights are random; layers feed each other, so that none can be left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.fingerprint import fingerprint
from edgec.toolchain.program import (
    Function,
    Input,
    Output,
    Parameter,
    Program,
    ProgramInfo,
    Provenance,
    Weights,
)
from edgec.toolchain.weights_file import write_weights

__all__ = ["MODELS", "Built", "Shapes", "built"]

_GROUP = 32
_EACH = 7
"""Products of a layer."""
_WIDE = {"i8": (np.int8, 1), "f16": (np.float16, 2), "f32": (np.float32, 4)}
_FOLDER = Path(__file__).resolve().parents[2] / "build" / "blocks"


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """Sizes of a model of the Llama family.

    Attributes:
        width, inner: of a layer and of its wide part.
        keys: of all heads of keys together.
        layers: how many.
        vocabulary: outputs of the last product.
    """

    width: int
    inner: int
    keys: int
    layers: int
    vocabulary: int


MODELS = {
    "smollm2-135m": Shapes(width=576, inner=1536, keys=192, layers=30, vocabulary=49152),
    "llama-3.2-1b": Shapes(width=2048, inner=8192, keys=512, layers=16, vocabulary=128256),
}


@dataclass(frozen=True, kw_only=True)
class Built:
    """A module of products.

    Attributes:
        scheme: of its weights.
        module: the file.
        bytes: of all weights and their scales.
        flops: of a call.
    """

    scheme: str
    module: Path
    bytes: int
    flops: int


def built(model: str, scheme: str, layers: int | None, rows: int) -> Built:
    """The module of a model's products; the last product's weights have 8 bits at least."""
    shapes = MODELS[model]
    layers = layers or shapes.layers
    matrices = _matrices(shapes, layers)
    parts = [
        _Matrix(number=number, outputs=n, inner=k, scheme=_scheme(scheme, number, len(matrices)))
        for number, (n, k) in enumerate(matrices)
    ]
    folder = _FOLDER / fingerprint()[:12]
    module = folder / f"{model}-{scheme}-{layers}x{rows}.vmfb"
    if not module.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file = f"{module.stem}.safetensors"
        arrays = {name: array for part in parts for name, array in part.arrays().items()}
        write_weights(arrays, folder / file)
        text = "\n".join(_program(shapes, parts, rows))
        program = _described(text, parts, file, shapes, rows, module.with_suffix(".mlirbc"))
        options = CompileOptions(output=module, timeout=1800.0, check=False, cache=False)
        compile(program, "cpu", options)
    return Built(
        scheme=scheme,
        module=module,
        bytes=sum(part.size for part in parts),
        flops=2 * rows * sum(n * k for n, k in matrices),
    )


def _scheme(scheme: str, number: int, count: int) -> str:
    """What a matrix is kept as: the last one's 4 bits are 8."""
    return "int8" if number == count - 1 and scheme.startswith("int4") else scheme


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    """One matrix of weights: its sizes, and how it is kept."""

    number: int
    outputs: int
    inner: int
    scheme: str

    @property
    def types(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Sizes and types of its parts by name."""
        n, k, groups = self.outputs, self.inner, self.inner // _GROUP
        match self.scheme:
            case "f32":
                return {"weights": ((n, k), "f32")}
            case "int8":
                return {"codes": ((n, k), "i8"), "scale": ((n,), "f32")}
            case "int8-g32":
                return {"codes": ((n, k), "i8"), "scale": ((n, groups), "f16")}
        numbers = {"codes": ((n, groups, _GROUP // 2), "i8"), "scale": ((n, groups), "f16")}
        least = {"least": ((n, groups), "f16")} if self.scheme.endswith("least") else {}
        return {**numbers, **least}

    @property
    def size(self) -> int:
        """Bytes of its parts."""
        return sum(int(np.prod(sizes)) * _WIDE[kind][1] for sizes, kind in self.types.values())

    def name(self, part: str) -> str:
        """A parameter's name."""
        return f"w{self.number}.{part}"

    def arrays(self) -> dict[str, np.ndarray]:
        """Random numbers for its parts."""
        rng = np.random.default_rng(self.number)
        found = {}
        for part, (sizes, kind) in self.types.items():
            if kind == "i8":
                found[self.name(part)] = rng.integers(-128, 128, sizes, np.int8)
            else:
                found[self.name(part)] = (0.01 * rng.random(sizes, np.float32)).astype(
                    _WIDE[kind][0]
                )
        return found

    def lines(self) -> Iterator[str]:
        """`%wN`: the matrix in f32, from its parts."""
        at, n, k = f"%w{self.number}", self.outputs, self.inner
        if self.scheme == "f32":
            yield f"{at} = stablehlo.reshape {at}.weights : {_to((n, k), 'f32', (n, k))}"
            return
        grouped = (n, k) if self.scheme == "int8" else (n, k // _GROUP, _GROUP)
        codes, axes = f"{at}.codes", ", ".join(str(i) for i in range(len(grouped) - 1))
        if self.scheme.startswith("int4"):
            half = _kind((n, k // _GROUP, _GROUP // 2), "i8")
            yield f"{at}.f = stablehlo.constant dense<15> : {half}"
            yield f"{at}.4 = stablehlo.constant dense<4> : {half}"
            yield f"{at}.lo = stablehlo.and {codes}, {at}.f : {half}"
            yield f"{at}.hi = stablehlo.shift_right_logical {codes}, {at}.4 : {half}"
            yield (
                f"{at}.both = stablehlo.concatenate {at}.lo, {at}.hi, dim = 2 : "
                f"({half}, {half}) -> {_kind(grouped, 'i8')}"
            )
            codes = f"{at}.both"
        else:
            yield f"{at}.cut = stablehlo.reshape {codes} : {_to((n, k), 'i8', grouped)}"
            codes = f"{at}.cut"
        wide = _kind(grouped, "f32")
        yield f"{at}.whole = stablehlo.convert {codes} : ({_kind(grouped, 'i8')}) -> {wide}"
        value = f"{at}.whole"
        if self.scheme == "int4-g32":
            yield f"{at}.8 = stablehlo.constant dense<8.0> : {wide}"
            yield f"{at}.centred = stablehlo.subtract {value}, {at}.8 : {wide}"
            value = f"{at}.centred"
        for part, operation in (("scale", "multiply"), ("least", "add")):
            if part not in self.types:
                continue
            sizes, kind = self.types[part]
            one, floats = f"{at}.{part}", _kind(sizes, "f32")
            yield f"{one}_f = stablehlo.convert {one} : ({_kind(sizes, kind)}) -> {floats}"
            yield (
                f"{one}_b = stablehlo.broadcast_in_dim {one}_f, dims = [{axes}] : "
                f"({floats}) -> {wide}"
            )
            yield f"{one}_r = stablehlo.{operation} {value}, {one}_b : {wide}"
            value = f"{one}_r"
        yield f"{at} = stablehlo.reshape {value} : {_to(grouped, 'f32', (n, k))}"

    def product(self, name: str, left: str, rows: int) -> Iterator[str]:
        """`name`: rows times the matrix."""
        sides = f"{_kind((rows, self.inner), 'f32')}, {_kind((self.outputs, self.inner), 'f32')}"
        yield from self.lines()
        yield (
            f"{name} = stablehlo.dot_general {left}, %w{self.number}, contracting_dims = [1] x [1]"
            f" : ({sides}) -> {_kind((rows, self.outputs), 'f32')}"
        )


def _kind(sizes: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def _to(sizes: tuple[int, ...], element: str, others: tuple[int, ...]) -> str:
    return f"({_kind(sizes, element)}) -> {_kind(others, element)}"


def _program(shapes: Shapes, parts: list[_Matrix], rows: int) -> Iterator[str]:
    arguments = [f"%x: {_kind((rows, shapes.width), 'f32')}"]
    for part in parts:
        for name, (sizes, kind) in part.types.items():
            arguments.append(f"%{part.name(name)}: {_kind(sizes, kind)}")
    result = _kind((rows, shapes.vocabulary), "f32")
    wide, keys = _kind((rows, shapes.width), "f32"), _kind((rows, shapes.keys), "f32")
    inner = _kind((rows, shapes.inner), "f32")
    yield f"func.func public @main({', '.join(arguments)}) -> {result} {{"
    yield "%zero = stablehlo.constant dense<0.0> : tensor<f32>"
    yield f"%small = stablehlo.constant dense<0.01> : {wide}"
    state = "%x"
    for first in range(0, len(parts) - 1, _EACH):
        q, k, v, o, gate, up, down = parts[first : first + _EACH]
        at = f"%l{first}"
        for matrix, name in ((q, "q"), (k, "k"), (v, "v"), (gate, "g"), (up, "u")):
            yield from matrix.product(f"{at}.{name}", state, rows)
        yield f"{at}.kv = stablehlo.add {at}.k, {at}.v : {keys}"
        yield (
            f"{at}.pad = stablehlo.pad {at}.kv, %zero, low = [0, 0], "
            f"high = [0, {shapes.width - shapes.keys}], interior = [0, 0] : "
            f"({keys}, tensor<f32>) -> {wide}"
        )
        yield f"{at}.qkv = stablehlo.add {at}.q, {at}.pad : {wide}"
        yield from o.product(f"{at}.o", f"{at}.qkv", rows)
        yield f"{at}.gu = stablehlo.multiply {at}.g, {at}.u : {inner}"
        yield from down.product(f"{at}.d", f"{at}.gu", rows)
        yield f"{at}.od = stablehlo.add {at}.o, {at}.d : {wide}"
        yield f"{at} = stablehlo.multiply {at}.od, %small : {wide}"
        state = at
    yield from parts[-1].product("%logits", state, rows)
    yield f"return %logits : {result}"
    yield "}"


def _described(
    text: str, parts: list[_Matrix], file: str, shapes: Shapes, rows: int, path: Path
) -> Program:
    """The program with its weights outside."""
    names = tuple(part.name(name) for part in parts for name in part.types)
    signature = Signature.flat(
        "main",
        [TensorSpec(name="x", shape=(rows, shapes.width), dtype=DType.F32)],
        [TensorSpec(name="logits", shape=(rows, shapes.vocabulary), dtype=DType.F32)],
    )
    function = Function(
        signature=signature,
        arguments=(Input(index=0), *(Parameter(name=name) for name in names)),
        results=(Output(index=0),),
    )
    info = ProgramInfo(
        functions=(function,),
        weights=Weights(scope="model", file=file, names=names),
        provenance=Provenance(framework="stablehlo", versions={}, source="benchmarks/blocks"),
    )
    return Program(bytecode=text.encode(), info=info, path=path)


def _matrices(shapes: Shapes, layers: int) -> list[tuple[int, int]]:
    width, inner, keys = shapes.width, shapes.inner, shapes.keys
    layer = [(width, width), (keys, width), (keys, width), (width, width)]
    layer += [(inner, width), (inner, width), (width, inner)]
    return [*layer * layers, (shapes.vocabulary, width)]
