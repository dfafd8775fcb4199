"""Programs of one CUDA kernel to how far off Triton's interpreter computes it, without a GPU.

Run in a process of its own with TRITON_INTERPRET=1, since that is asked for when sources are
imported: prints JSON, the relative error by case.

python interpreted.py [WORD [STEP]]     # cases with the word in their name; every STEPth
"""

import dataclasses
import importlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter
from block_cases import BLOCK_CASES, GPUS
from chunk_cases import CHUNKS
from emulated import TYPES, emulate
from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.kernels.cuda.library import Launch, Library
from edgec.toolchain.kernels.cuda.placing import place_kernels
from edgec.toolchain.kernels.cuda.variants import Variant, is_c, parameters
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

PACKAGE = "edgec.toolchain.kernels.cuda.triton"


_patch = interpreter._patch_lang_tensor


def _patched(tensor: Any, scope: Any) -> None:
    """Sizes of loops as plain numbers: NumPy no longer takes an array of one for one."""
    _patch(tensor, scope)
    tensor.__index__ = lambda self: self.handle.data.item()


interpreter._patch_lang_tensor = _patched
_dot = interpreter.InterpreterBuilder.create_dot


def _dot_of_halves(builder: Any, left: Any, right: Any, *rest: Any) -> Any:
    """The interpreter keeps bf16 as the upper half of an f32, and would multiply integers."""
    return _dot(builder, _widened(left), _widened(right), *rest)


def _widened(value: Any) -> Any:
    if value.dtype.scalar != tl.bfloat16:
        return value
    bits = value.data.astype(np.uint32) << 16
    return interpreter.TensorHandle(bits.view(np.float32), tl.float32)


interpreter.InterpreterBuilder.create_dot = _dot_of_halves


KNOWN = np.random.default_rng(7).standard_normal((3, 3, 24, 40), np.float32)
"""Weights that lie in the program."""


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float16"
    precision: str = "tf32x3"
    kinds: tuple[str, ...] = ()
    """The types of what it takes, where they differ."""
    gpu: Mapping[str, int] = field(default_factory=dict)
    """In what the GPU differs, so that small programs need what others do on a large one."""

    def draw(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Numbers for what it takes."""
        kinds = self.kinds or (self.dtype,) * len(self.shapes)
        return [
            rng.integers(-128, 128, shape).astype(np.int8)
            if kind == "int8"
            else rng.standard_normal(shape, np.float32).astype(jnp.dtype(kind))
            for shape, kind in zip(self.shapes, kinds, strict=True)
        ]


@dataclass(frozen=True)
class Unbuilt:
    """Kernels without code: they are interpreted, or emulated where they are in C."""

    in_c: bool = True
    folds = True

    def find(self, variant: Variant) -> Binary | Declined:
        if variant.is_c and not self.in_c:
            return Declined(reason="no kernel in C")
        return Binary(name=variant.symbol, data=b"ptx", threads=32, shared=0)


def interpret(
    launch: Launch,
    tensors: dict[str, torch.Tensor],
    into: dict[str, torch.Tensor],
    results: int,
) -> torch.Tensor:
    """What a call writes first, so many results, from what it reads and changes by parameter."""
    written = {
        name: torch.full(
            (math.prod(kind.shape),), float("nan"), dtype=TYPES[str(kind.element_type)]
        )
        for name, kind in launch.writes.items()
    }
    written |= into
    given: dict[str, Any] = {**tensors, **written, **launch.numbers, **launch.folded}
    if launch.counters:
        given |= {"counters": torch.zeros(launch.counters, dtype=torch.int32), "slot": 0}
    if "EARLY" in parameters(launch.source):
        given["EARLY"] = 0  # the interpreter has one kernel at a time
    source = getattr(importlib.import_module(f"{PACKAGE}.{launch.source}"), launch.source)
    source[launch.grid](**given, **launch.constants)
    if launch.counters:
        assert not given["counters"].any(), "counters are left as they were found"
    return torch.cat([each.to(torch.float64) for each in list(written.values())[:results]])


def run(case: Case, seed: int, *, in_c: bool = True) -> tuple[float, bool]:
    """The relative error of one case, and whether a kernel in C computed it, which none may."""
    drawn = case.draw(np.random.default_rng(seed))
    lowered = jax.jit(case.function, keep_unused=True).lower(*drawn)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(str(lowered.compiler_ir("stablehlo")))
        InlineCalls().run(module)
        entry = module.body.operations[0].regions[0].blocks[0]
        arguments = list(entry.arguments)
        gpu = dataclasses.replace(find("cuda:sm_90").gpu, **case.gpu)
        library = Library(module, gpu, Unbuilt(in_c), precision=case.precision)
        place_kernels(module, library)
        (launch,) = library.launches
        numbers = (array.astype(np.float64) for array in drawn)
        known = dict(zip(arguments, numbers, strict=True))

        def tensor(value: Any) -> torch.Tensor:
            (array,) = evaluate([value], known)
            kind = TYPES[str(value.type.element_type)]
            return torch.from_numpy(np.asarray(array, np.float32).reshape(-1)).to(kind)

        tensors = {name: tensor(value) for name, value in launch.reads.items()}
        into = {name: tensor(value) for name, value in launch.into.items()}
        results = jax.tree.leaves(lowered.out_info)
        if is_c(launch.source):
            given = emulate(launch, tensors, len(results)).numpy()
        else:
            given = interpret(launch, tensors, into, len(results)).numpy()
    with jax.default_matmul_precision("highest"):
        wide = [jnp.asarray(a if a.dtype == np.int8 else a.astype(np.float32)) for a in drawn]
        answers = jax.tree.leaves(case.function(*wide))
        truth = np.concatenate([np.asarray(each, np.float64).reshape(-1) for each in answers])
    return float(np.linalg.norm(given - truth) / np.linalg.norm(truth)), is_c(launch.source)


def cases() -> list[Case]:
    """Every kernel, on sizes that fit no tile."""

    def plain(a: Any, b: Any) -> Any:
        return a @ b

    def turned(a: Any, b: Any) -> Any:
        return a @ b.T

    def heads(q: Any, k: Any) -> Any:
        q, k = (each.reshape(2, 70, 3, 48).transpose(0, 2, 1, 3) for each in (q, k))
        return jnp.einsum("bhqd,bhkd->bhqk", q, k)

    def shared(a: Any, b: Any) -> Any:
        return jnp.einsum("bmk,kn->bmn", a, b)

    def tail(a: Any, b: Any, bias: Any, other: Any) -> Any:
        return jax.nn.relu(a @ b.T + bias + other)

    def gelu(a: Any, b: Any, bias: Any) -> Any:
        return jax.nn.gelu(a @ b + bias, approximate=False)

    def hard_swish(a: Any, b: Any, other: Any) -> Any:
        y = a @ b
        return y * jnp.clip(y / 6 + 0.5, 0, 1) + other

    def clip(a: Any, b: Any, other: Any) -> Any:
        y = a @ b
        return jnp.clip(jnp.where(y > 0, y, 0.25 * y), -2, 20) + other

    def layer(a: Any, b: Any, bias: Any, scale: Any, other: Any) -> Any:
        return (a @ b + bias) * scale + other

    def convolution(x: Any, w: Any, bias: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (2, 2), [(1, 1)] * 2, dimension_numbers=layout)
        return jax.nn.relu(y + bias)

    def of_known_weights(x: Any, bias: Any) -> Any:
        return convolution(x, KNOWN, bias)

    def dilated(x: Any, w: Any, bias: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(
            x, w, (2, 1), [(2, 3), (3, 3)], rhs_dilation=(2, 3), dimension_numbers=layout
        )
        return jax.nn.relu(y + bias)

    def groups(
        count: int, stride: tuple[int, int], dilation: tuple[int, int], pad: int
    ) -> Callable[..., Any]:
        def convolution(x: Any, w: Any, bias: Any) -> Any:
            y = jax.lax.conv_general_dilated(
                x,
                w,
                stride,
                [(pad, pad)] * 2,
                rhs_dilation=dilation,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=count,
            )
            return jax.nn.relu(y + bias)

        return convolution

    def grouped(name: str, inner: int, outputs: int, window: tuple[int, int], *how: Any) -> Case:
        """Of f32, so that a wrong element shows."""
        return Case(
            name=name,
            function=groups(*how),
            shapes=((2, 9, 7, inner * how[0]), (*window, inner, outputs), (outputs,)),
            dtype="float32",
        )

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
        return (y * scale + shift).astype(x.dtype)

    def norm_behind(x: Any, scale: Any, residual: Any) -> Any:
        """As a network adds it whose norms stand behind its layers."""
        return residual + norm(x, scale, jnp.zeros_like(scale))

    def attention(q: Any, k: Any, v: Any) -> Any:
        share = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 8)
        return jnp.einsum("hqk,hkd->hqd", share, v)

    def causal(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Heads that share keys; a cap; all keys of the first block masked."""
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", q.reshape(2, 37, 2, 3, 40), k)
        scores = 5 * jnp.tanh(scores / 20) + 2 * bias
        scores = jnp.where(jnp.arange(90) >= 70, scores, -jnp.inf)
        return jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(scores), v)

    def in_windows(qkv: Any, bias: Any) -> Any:
        """Windows of 5 x 3 in two images of 10 x 9, both turned by 2 x 1 before and back after."""
        x = jnp.roll(qkv, (-2, -1), (1, 2)).reshape(2, 2, 5, 3, 3, 3, 2, 24)
        q, k, v = jnp.moveaxis(x.transpose(0, 1, 3, 6, 2, 4, 5, 7).reshape(-1, 2, 15, 3, 24), 3, 0)
        share = jax.nn.softmax(jnp.einsum("whqd,whkd->whqk", q, k) / 5 + bias)
        y = jnp.einsum("whqk,whkd->wqhd", share, v).reshape(2, 2, 3, 5, 3, 48)
        return jnp.roll(y.transpose(0, 1, 3, 2, 4, 5).reshape(2, 10, 9, 48), (2, 1), (1, 2))

    def in_cubes(qkv: Any) -> Any:
        """Windows of 2 x 3 x 4 in a film of 4 x 6 x 8."""
        x = qkv.reshape(2, 2, 2, 3, 2, 4, 3, 16).transpose(6, 0, 2, 4, 1, 3, 5, 7)
        q, k, v = x.reshape(3, 8, 24, 16)
        share = jax.nn.softmax(jnp.einsum("wqd,wkd->wqk", q, k) / 4)
        y = jnp.einsum("wqk,wkd->wqd", share, v).reshape(2, 2, 2, 2, 3, 4, 16)
        return y.transpose(0, 3, 1, 4, 2, 5, 6)

    def put(keys: Any, values: Any, key: Any, value: Any, at: Any) -> Any:
        """Keys and values of five tokens into caches, as far as they reach."""
        place = (100 * at[0]).astype(jnp.int32)
        write = jax.lax.dynamic_update_slice_in_dim
        return write(keys, key, place, 1), write(values, value, place, 1)

    def put_apart(x: Any, part: Any, at: Any) -> Any:
        """At three places that only the device knows, and one that is known."""
        places = (7 * at).astype(jnp.int32)
        return jax.lax.dynamic_update_slice(x, part, (places[0], 1, places[1], places[2], 0))

    def turn(x: Any, cosine: Any, sine: Any) -> Any:
        a, b = jnp.split(x, 2, -1)
        return x * cosine + jnp.concatenate([-b, a], -1) * sine

    def rotary(x: Any, angle: Any) -> Any:
        """As `transformers` writes it, the same angles for all heads."""
        angle = jnp.concatenate([angle, angle], -1)
        return turn(x, jnp.cos(angle), jnp.sin(angle))

    def rotary_in_halves(x: Any, angle: Any) -> Any:
        a, b = jnp.split(x, 2, -1)
        c, s = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([a * c - b * s, b * c + a * s], -1)

    def put_turned(keys: Any, values: Any, key: Any, value: Any, query: Any, angle: Any) -> Any:
        """A token's keys and values into caches, and its queries, turned by one angle."""
        place = jnp.abs(10 * angle[0, 0, 0]).astype(jnp.int32)
        angle = jnp.concatenate([angle, angle], -1)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        query, key = turn(query, cosine, sine), turn(key, cosine, sine)
        write = jax.lax.dynamic_update_slice_in_dim
        return write(keys, key, place, 1), write(values, value, place, 1), query

    def put_in_halves(*given: Any) -> Any:
        """The same into caches of halves."""
        keys, values, key, value, query, angle = given

        def write(array: Any, part: Any, place: Any, axis: int) -> Any:
            part = part.astype(array.dtype)
            return jax.lax.dynamic_update_slice_in_dim(array, part, place, axis)

        place = jnp.abs(10 * angle[0, 0, 0]).astype(jnp.int32)
        angle = jnp.concatenate([angle, angle], -1)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        query, key = turn(query, cosine, sine), turn(key, cosine, sine)
        return write(keys, key, place, 1), write(values, value, place, 1), query

    def take(x: Any, at: Any) -> Any:
        return jax.lax.dynamic_slice(x, (2, (9 * at[0]).astype(jnp.int32), 1), (3, 4, 5))

    def take_row(x: Any, at: Any) -> Any:
        return jnp.take(x, (90 * at).astype(jnp.int32), axis=1, mode="clip")

    rows = ((3, 90, 16), (3, 90, 16), (3, 5, 16), (3, 5, 16), (1,))
    in_blocks = [
        Case(name=name, function=function, shapes=shapes, kinds=kinds, gpu=GPUS.get(name, {}))
        for name, (function, shapes, kinds) in BLOCK_CASES.items()
    ]
    return [
        *in_blocks,
        *(
            Case(
                name=f"f32: chunk, {how}",
                function=function,
                shapes=((2, 40, 16), (2, 300, 16), (2, 300, 16)),
                dtype="float32",
            )
            for how, function in CHUNKS.items()
        ),
        Case(name="f32: put", function=put, shapes=rows, dtype="float32"),
        Case(
            name="f32: put, turned",
            function=put_turned,
            shapes=((3, 90, 16), (3, 90, 16), (3, 1, 16), (3, 1, 16), (9, 1, 16), (1, 1, 8)),
            dtype="float32",
        ),
        Case(
            name="put, turned, in halves",
            function=put_in_halves,
            shapes=((3, 90, 16), (3, 90, 16), (3, 1, 16), (3, 1, 16), (9, 1, 16), (1, 1, 8)),
            kinds=("float16", "float16", *["float32"] * 4),
        ),
        Case(name="rotary", function=rotary, shapes=((1, 9, 30, 16), (1, 1, 30, 8))),
        Case(
            name="f32: rotary in halves",
            function=rotary_in_halves,
            shapes=((2, 9, 5, 24), (5, 12)),
            dtype="float32",
        ),
        Case(name="put", function=put, shapes=rows),
        Case(name="f32: take", function=take, shapes=((5, 9, 8), (1,)), dtype="float32"),
        Case(name="take a row", function=take_row, shapes=((3, 90, 16), (1,))),
        Case(
            name="f32: put apart",
            function=put_apart,
            shapes=((6, 5, 7, 8, 4), (2, 3, 4, 5, 4), (3,)),
            dtype="float32",
        ),
        Case(name="product", function=plain, shapes=((100, 264), (264, 136))),
        Case(name="odd sizes", function=plain, shapes=((99, 251), (251, 133))),
        Case(name="in parts", function=plain, shapes=((40, 4096), (4096, 24))),
        Case(name="a turned weight", function=turned, shapes=((65, 250), (131, 250))),
        Case(name="f32: product", function=plain, shapes=((70, 130), (130, 90)), dtype="float32"),
        Case(
            name="tf32: product",
            function=plain,
            shapes=((70, 130), (130, 90)),
            dtype="float32",
            precision="tf32",
        ),
        Case(name="one row", function=plain, shapes=((1, 1024), (1024, 1000))),
        Case(name="a vector", function=plain, shapes=((1000, 777), (777,))),
        Case(name="heads in place", function=heads, shapes=((2, 70, 144), (2, 70, 144))),
        Case(name="a batch of one weight", function=shared, shapes=((5, 33, 80), (80, 96))),
        Case(name="tail", function=tail, shapes=((50, 256), (72, 256), (72,), (50, 72))),
        Case(name="gelu", function=gelu, shapes=((50, 256), (256, 72), (72,))),
        Case(name="hard swish", function=hard_swish, shapes=((50, 256), (256, 72), (50, 72))),
        Case(
            name="a layer's scale",
            function=layer,
            shapes=((50, 256), (256, 72), (72,), (72,), (50, 72)),
        ),
        Case(name="clip", function=clip, shapes=((50, 256), (256, 72), (50, 72))),
        Case(
            name="convolution",
            function=convolution,
            shapes=((2, 17, 17, 24), (3, 3, 24, 40), (40,)),
        ),
        Case(
            name="f32: a window with gaps",
            function=dilated,
            shapes=((2, 17, 15, 24), (3, 3, 24, 40), (40,)),
            dtype="float32",
        ),
        Case(
            name="f32: convolution of known weights",
            function=of_known_weights,
            shapes=((2, 17, 15, 24), (40,)),
            dtype="float32",
        ),
        Case(
            name="f32: product of known weights",
            function=lambda x: x @ KNOWN[0, 0],
            shapes=((70, 24),),
            dtype="float32",
        ),
        Case(
            name="f32: a window with gaps over three channels",
            function=dilated,
            shapes=((2, 17, 15, 3), (3, 3, 3, 40), (40,)),
            dtype="float32",
        ),
        grouped("f32: by channels", 1, 24, (3, 3), 24, (1, 1), (1, 1), 1),
        grouped("f32: two windows a channel", 1, 48, (5, 3), 24, (2, 1), (1, 2), 2),
        grouped("f32: groups of 4 into 3", 4, 18, (3, 3), 6, (2, 2), (1, 1), 1),
        grouped("f32: groups of 4", 4, 24, (3, 3), 6, (2, 1), (1, 2), 2),
        grouped("f32: groups of 24", 24, 72, (3, 3), 3, (1, 1), (1, 1), 1),
        grouped("f32: groups of 80 into 72", 80, 144, (3, 1), 2, (1, 2), (1, 1), 0),
        Case(
            name="groups of 5 into 6",
            function=groups(7, (1, 1), (1, 1), 1),
            shapes=((1, 9, 7, 35), (3, 3, 5, 42), (42,)),
        ),
        Case(name="norm", function=norm, shapes=((7, 200), (200,), (200,))),
        Case(name="norm and residual", function=norm_behind, shapes=((7, 200), (200,), (7, 200))),
        Case(name="attention", function=attention, shapes=((2, 50, 64), (2, 77, 64), (2, 77, 64))),
        Case(
            name="f32: attention of few",
            function=attention,
            shapes=((5, 3, 64), (5, 700, 64), (5, 700, 48)),
            dtype="float32",
        ),
        Case(
            name="f32: attention of one",
            function=attention,
            shapes=((5, 1, 64), (5, 700, 64), (5, 700, 48)),
            dtype="float32",
        ),
        Case(
            name="attention of one over few",
            function=attention,
            shapes=((3, 1, 80), (3, 70, 80), (3, 70, 80)),
        ),
        Case(
            name="bf16: attention of one",
            function=attention,
            shapes=((2, 1, 64), (2, 300, 64), (2, 300, 64)),
            dtype="bfloat16",
        ),
        Case(
            name="attention of few over many",
            function=attention,
            shapes=((2, 2, 64), (2, 2500, 64), (2, 2500, 64)),
        ),
        Case(
            name="bf16: attention",
            function=attention,
            shapes=((2, 50, 64), (2, 77, 64), (2, 77, 64)),
            dtype="bfloat16",
        ),
        Case(
            name="bf16: causal attention",
            function=causal,
            shapes=((1, 50, 2, 80),) * 3,
            dtype="bfloat16",
        ),
        Case(
            name="bf16: product", function=plain, shapes=((99, 251), (251, 133)), dtype="bfloat16"
        ),
        Case(
            name="tf32: attention",
            function=attention,
            shapes=((2, 50, 64), (2, 77, 64), (2, 77, 64)),
            dtype="float32",
            precision="tf32",
        ),
        Case(
            name="f32: causal attention",
            function=causal,
            shapes=((1, 50, 2, 96),) * 3,
            dtype="float32",
        ),
        Case(
            name="f32: attention in windows",
            function=in_windows,
            shapes=((2, 10, 9, 144), (2, 15, 15)),
            dtype="float32",
        ),
        Case(
            name="f32: attention in cubes",
            function=in_cubes,
            shapes=((4, 6, 8, 48),),
            dtype="float32",
        ),
        Case(
            name="attention with all there is",
            function=biased,
            shapes=((2, 37, 6, 40), (2, 90, 2, 40), (2, 90, 2, 40), (37, 90)),
        ),
    ]


if __name__ == "__main__":
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    step = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    every = list(enumerate(cases()))[::step]
    found = {}
    for seed, case in every:
        if only not in case.name:
            continue
        found[case.name], in_c = run(case, seed)
        if in_c:
            found[f"{case.name}, in Triton"], _ = run(case, seed, in_c=False)
    print(json.dumps(found))
