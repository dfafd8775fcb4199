"""Random element-wise tails after products and convolutions, on every device, beside NumPy in f64.

Operands are small whole numbers, so that sums are exact and no corner lies where they fall.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from iree.compiler import ir, tools

from edgec import runtime, toolchain
from edgec.targets import find
from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.kernels.gpu.tails import find_finish
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.kernels.vulkan import choice
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

NUMPY = SimpleNamespace(
    **{name: getattr(np, name) for name in ("abs", "exp", "log1p", "maximum", "minimum", "tanh")},
    where=np.where,
    erf=np.vectorize(math.erf, otypes=[np.float64]),
)
SMOOTH_FUNCTIONS = ("exp", "log1p", "tanh", "erf")


def off_by(share: float) -> SimpleNamespace:
    """NumPy whose smooth functions give so much more than they should."""

    def off(function: Callable) -> Callable:
        return lambda x: function(x) * (1 + share)

    changed = {name: off(getattr(NUMPY, name)) for name in SMOOTH_FUNCTIONS}
    return SimpleNamespace(**{**vars(NUMPY), **changed})


DRIVERS = (off_by(2.0**-22), off_by(-(2.0**-22)))
"""What a GPU's driver may give: its own functions are 4 units in the last place off, or less."""
JAX = SimpleNamespace(
    **{name: getattr(jnp, name) for name in ("abs", "exp", "log1p", "maximum", "minimum", "tanh")},
    where=jnp.where,
    erf=jax.lax.erf,
)


@dataclass(frozen=True)
class Link:
    """One link of a tail: from a namespace, the value, a row and a whole tensor to a value."""

    text: str
    apply: Callable


def _gelu_tanh(m, y):
    return 0.5 * y * (1 + m.tanh(0.7978845608028654 * (y + 0.044715 * (y * y * y))))


SMOOTH = [
    Link("gelu by erf", lambda m, y, b, r: 0.5 * y * (1 + m.erf(y * 0.7071067811865476))),
    Link("gelu by tanh", lambda m, y, b, r: _gelu_tanh(m, y)),
    Link("silu", lambda m, y, b, r: y / (1 + m.exp(-y))),
    Link("sigmoid", lambda m, y, b, r: 1 / (1 + m.exp(-y))),
    Link("tanh", lambda m, y, b, r: m.tanh(y)),
    Link("softplus", lambda m, y, b, r: m.maximum(y, 0.0) + m.log1p(m.exp(-m.abs(y)))),
]
PLAIN = [
    Link("+ row", lambda m, y, b, r: y + b),
    Link("row +", lambda m, y, b, r: b + y),
    Link("* row", lambda m, y, b, r: y * b),
    Link("+ tensor", lambda m, y, b, r: y + r),
    Link("tensor -", lambda m, y, b, r: r - y),
    Link("relu", lambda m, y, b, r: m.maximum(y, 0.0)),
    Link("relu6", lambda m, y, b, r: m.minimum(m.maximum(y, 0.0), 6.0)),
    Link("hard swish", lambda m, y, b, r: y * m.minimum(m.maximum(y + 3.0, 0.0), 6.0) / 6.0),
    Link("hard sigmoid", lambda m, y, b, r: m.minimum(m.maximum(y + 3.0, 0.0), 6.0) / 6.0),
    Link("abs", lambda m, y, b, r: m.abs(y)),
    Link("itself twice", lambda m, y, b, r: m.maximum(y, 0.0) + y * 0.25),
]
eighths = st.integers(-40, 40).map(lambda n: n / 8 + 1 / 16)


SLOPES = [1 / 1024, 1 / 8, 1 / 4, -1 / 2, 1.0, 3 / 2]


def links(c: float, d: float, s: float) -> list[Link]:
    """Links with numbers of their own."""
    return [
        Link(f"at least {c}", lambda m, y, b, r: m.maximum(y, c)),
        Link(f"at most {c}", lambda m, y, b, r: m.minimum(y, c)),
        Link(f"within {c}, {d}", lambda m, y, b, r: m.minimum(m.maximum(y, c), d)),
        Link(f"slope {s}", lambda m, y, b, r: m.maximum(y, s * y)),
        Link(f"slope {s} by choice", lambda m, y, b, r: m.where(y > 0, y, s * y)),
        Link(f"times {s}", lambda m, y, b, r: y * s),
        Link(f"plus {c}", lambda m, y, b, r: y + c),
    ]


def threshold(c: float, s: float) -> Link:
    """A link that jumps."""
    return Link(f"over {c} else {s}", lambda m, y, b, r: m.where(y > c, y, s * y))


@st.composite
def numbered(draw) -> Link:
    """A link with numbers of its own."""
    c = draw(eighths)
    return draw(st.sampled_from(links(c, c + abs(draw(eighths)), draw(st.sampled_from(SLOPES)))))


@st.composite
def tails(draw) -> tuple[Link, ...]:
    """A few links; a threshold, which jumps, only where the value is still exact."""
    c, s = draw(eighths), draw(st.sampled_from([0.0, 1 / 8]))
    first = draw(
        st.lists(
            st.just(threshold(c, s)),
            max_size=1,
        )
    )
    link = st.one_of(st.sampled_from(PLAIN), st.sampled_from(SMOOTH), numbered())
    return (*first, *draw(st.lists(link, min_size=1, max_size=4)))


def drawn(rng: np.random.Generator, count: int) -> list[tuple[Link, ...]]:
    """Tails for a module that is compiled once; shrinking would compile hundreds."""

    def numbers() -> tuple[float, float]:
        low = float(rng.integers(-40, 40)) / 8 + 1 / 16
        return low, low + float(rng.integers(1, 40)) / 8

    def link() -> Link:
        some = (PLAIN, SMOOTH, links(*numbers(), float(rng.choice(SLOPES))))[rng.integers(3)]
        return some[rng.integers(len(some))]

    found = []
    for _ in range(count):
        first = [threshold(numbers()[0], float(rng.choice([0.0, 1 / 8])))] * int(rng.integers(2))
        found.append((*first, *(link() for _ in range(rng.integers(1, 5)))))
    return found


def named(tail: tuple[Link, ...]) -> str:
    return ", ".join(link.text for link in tail)


def applied(m, tail, y, b, r):
    for link in tail:
        y = link.apply(m, y, b, r)
    return y


def whole(rng, *shape):
    return rng.integers(-2, 3, shape).astype(np.float32)


def check(name: str, got, wanted, close: float, allowed=0.0) -> None:
    """Compare; `allowed` is what each element may be off by, beside what is `close`."""
    off = np.abs(np.asarray(got, np.float64) - wanted) - allowed
    error = off / (1 + np.abs(wanted))
    assert error.max() < close, f"{name}: off by {error.max()}"


def lower(function, *arrays) -> str:
    return str(jax.jit(function, keep_unused=True).lower(*arrays).compiler_ir("stablehlo"))


@settings(deadline=None, derandomize=True, database=None, max_examples=60, phases=[Phase.generate])
@given(
    tail=tails(),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
    widened=st.booleans(),
)
def test_what_a_gpu_takes_means_what_the_program_says(tail, dtype, widened) -> None:
    rng = np.random.default_rng(0)
    arrays = [whole(rng, *shape) for shape in ((6, 16), (16, 24), (24,), (6, 24))]
    kind = jnp.dtype(dtype)

    def function(x, w, b, r):
        y, b = x @ w, jnp.broadcast_to(b, (6, 24))
        if widened:
            y, b, r = (v.astype(jnp.float32) for v in (y, b, r))
        return applied(JAX, tail, y, b, r)

    text = lower(function, *(jnp.asarray(a, kind) for a in arrays))
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        block = module.body.operations[0].regions[0].blocks[0]
        operations = [op.operation for op in block.operations]
        (total,) = (op.results[0] for op in operations if op.name == "stablehlo.dot_general")
        numbers = [a.astype(np.float64) for a in arrays]
        known = dict(zip(block.arguments, numbers, strict=True))
        finish = find_finish(total, block.arguments[0].type.element_type, 24, Answers())
        known[total] = numbers[0] @ numbers[1]
        (known[finish.last],) = finish.reference(*(known[v] for v in finish.operands))
        (got,) = evaluate(list(operations[-1].operands), known)
    with np.errstate(all="ignore"):
        wanted = applied(NUMPY, tail, numbers[0] @ numbers[1], numbers[2], numbers[3])
    close = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[dtype]
    check(f"{named(tail)} in {dtype}", got, wanted, close)


def convolution(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def sums_on_cpu(some: list[tuple[Link, ...]], folder: Path) -> None:
    rng = np.random.default_rng(1)
    x, w, u = whole(rng, 4, 6, 16), whole(rng, 16, 40), whole(rng, 3, 3, 16, 40)
    b, r = whole(rng, 40), whole(rng, 4, 6, 40)

    def function(x, r):
        found = []
        for number, tail in enumerate(some):
            y = convolution(x[None], u + number)[0] if number % 2 else x @ (w + number)
            found.append(applied(JAX, tail, y, jnp.broadcast_to(b, y.shape), r))
        return tuple(found)

    source = folder / "tails.mlir"
    source.write_text(lower(function, x, r))
    options = toolchain.CompileOptions(output=folder / "tails.vmfb", cache=False)
    assert toolchain.run_passes(source, "cpu", options).changes["cpu-kernels"] >= len(some)
    toolchain.compile(source, "cpu", options)
    with runtime.load(folder / "tails.vmfb") as loaded:
        answers = loaded.main(x, r)
    wide = [a.astype(np.float64) for a in (x, w, u, b, r)]
    taps = np.pad(wide[0], ((1, 1), (1, 1), (0, 0)))
    places = [(i, j) for i in range(3) for j in range(3)]
    for number, (tail, got) in enumerate(zip(some, answers, strict=True)):
        window = (taps[i : i + 4, j : j + 6] @ (wide[2][i, j] + number) for i, j in places)
        y = sum(window) if number % 2 else wide[0] @ (wide[1] + number)
        with np.errstate(all="ignore"):
            check(named(tail), got, applied(NUMPY, tail, y, wide[3], wide[4]), 2e-5)


def test_cpu_kernels_do_random_tails(tmp_path) -> None:
    sums_on_cpu(drawn(np.random.default_rng(3), 8), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_cpu_kernels_do_many_random_tails(seed, tmp_path) -> None:
    sums_on_cpu(drawn(np.random.default_rng(seed), 16), tmp_path)


def sums_on_vulkan(some: list[tuple[Link, ...]], folder: Path) -> None:
    rng = np.random.default_rng(2)
    x, w, b, r = (whole(rng, *s) for s in ((68, 128), (128, 132), (132,), (68, 132)))

    def function(x, w, b, r):
        rows = jnp.broadcast_to(b, r.shape)
        return tuple(
            applied(JAX, tail, x @ (w + number), rows, r) for number, tail in enumerate(some)
        )

    with ir.Context():
        module = ir.Module.parse(lower(function, x, w, b, r))
        InlineCalls().run(module)
        VulkanKernels(gpu=find("vulkan:nvidia-ada").gpu).run(module)
        text = module.operation.get_asm()
    assert len(re.findall(r"flow\.dispatch @edgec_product", text)) == len(some)
    path = folder / "tails.vmfb"
    arguments = ["--iree-hal-target-device=vulkan"]
    tools.compile_str(text, output_file=str(path), input_type="stablehlo", extra_args=arguments)
    with runtime.load(path, device="vulkan://0") as loaded:
        answers = loaded.main(x, w, b, r)
    wide = [a.astype(np.float64) for a in (x, w, b, r)]
    for number, (tail, got) in enumerate(zip(some, answers, strict=True)):
        total = wide[0] @ (wide[1] + number)
        with np.errstate(all="ignore"):
            wanted = applied(NUMPY, tail, total, *wide[2:])
            # What no kernel takes along is left to the driver's functions: GELU by tanh of -630 is
            # -315 (1 + tanh(..)), and makes 315 times as much of what tanh is off by.
            near = [np.abs(applied(m, tail, total, *wide[2:]) - wanted) for m in DRIVERS]
        check(named(tail), got, wanted, 5e-5, np.maximum(*near))


@pytest.mark.vulkan
def test_vulkan_kernels_do_random_tails(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(choice, "SUM_FORMS", {"small": choice.SUM_FORMS["small"]})
    sums_on_vulkan(drawn(np.random.default_rng(4), 5), tmp_path)


@pytest.mark.vulkan
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_vulkan_kernels_do_many_random_tails(seed, tmp_path) -> None:
    sums_on_vulkan(drawn(np.random.default_rng(seed), 12), tmp_path)
