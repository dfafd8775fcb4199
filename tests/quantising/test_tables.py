"""Tables that rows are looked up in: kept in bytes, whoever wrote the look-up, and once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export
from edgec.quantising import Scheme, quantise, quantise_by_choice, quantise_to_bytes
from edgec.runtime import load
from edgec.runtime.errors import UsageError
from edgec.toolchain import CompileOptions, Program, compile
from edgec.toolchain.weights_file import read_weights, write_weights

ROWS, INNER = 1500, 64
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((ROWS, INNER)).astype(np.float32)
IDS = np.array([[3, 1499, 0], [700, 700, 21]], np.int32)
MOST = {"int8": 0.01, "int8-g32": 0.01, "int4-g32": 0.12, "int4": 0.2}
"""Of the spread: what nearest codes of normal numbers are off by, and somewhat more."""


def take(ids: Any) -> Any:
    return jnp.take(jnp.asarray(TABLE), ids, axis=0)


def clipped(ids: Any) -> Any:
    return jnp.take(jnp.asarray(TABLE), ids, axis=0, mode="clip")


def one(ids: Any) -> Any:
    return jnp.asarray(TABLE)[ids[0, 1]]


def neighbours(ids: Any) -> Any:
    return jax.lax.dynamic_slice(jnp.asarray(TABLE), (ids[1, 2], 0), (5, INNER))


def second_axis(ids: Any) -> Any:
    return jnp.take(jnp.asarray(TABLE[None]), ids[0], axis=1)


LOOK_UPS: list[Callable[[Any], Any]] = [take, clipped, one, neighbours, second_axis]


def sizes_of_floats(program: Program) -> int:
    """How many numbers the largest constant of floats has in a program."""
    from iree.compiler import ir

    from edgec.toolchain.ir.fold import splat
    from edgec.toolchain.ir.functions import inside
    from edgec.toolchain.ir.read import element_type, shape_of
    from edgec.toolchain.stablehlo import parse_stablehlo

    module = parse_stablehlo(program.bytecode, ir.Context())
    constants = [op for op in inside(module.operation) if op.name == "stablehlo.constant"]
    values = [op.results[0] for op in constants if splat(op.results[0]) is None]
    kinds = [value for value in values if str(element_type(value)) in ("f32", "f64")]
    return max((int(np.prod(shape_of(value))) for value in kinds), default=0)


def off(found: Any, wanted: Any) -> float:
    """The root mean square of the differences, as a part of the spread."""
    return float(np.sqrt(np.square(np.asarray(found) - wanted).mean()) / np.std(wanted))


def call(path: Path, device: str | None, inputs: tuple[Any, ...]) -> Any:
    with load(path, device=device) as module:
        return jax.tree.map(np.array, module.main(*inputs))


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("scheme", ["int8", "int4-g32"])
@pytest.mark.parametrize("function", LOOK_UPS)
def test_rows_are_looked_up_in_bytes_and_are_what_jax_gives(
    function: Callable[[Any], Any], scheme: str, tmp_path: Path
) -> None:
    found = quantise(export(function, (IDS,)), Scheme.parse(scheme))
    (line,) = found.lines
    assert line.what == f"{ROWS} rows of {INNER}"
    assert line.schemes == (Scheme.parse(scheme),)
    assert line.before == TABLE.nbytes
    bits = 4.5 if scheme == "int4-g32" else 8.5
    assert line.after <= TABLE.size * bits / 8
    assert found.after < found.before * 0.28
    assert sizes_of_floats(found.program) < TABLE.size / 8
    path = tmp_path / "table.vmfb"
    compile(found.program, "cpu", CompileOptions(output=path))
    assert path.stat().st_size < TABLE.nbytes * 0.28 + 40_000
    for ids in (IDS, IDS[::-1].copy(), np.minimum(IDS + 1, ROWS - 9)):
        answer = off(call(path, None, (ids,)), function(jnp.asarray(ids)))
        assert MOST[scheme] / 20 < answer < MOST[scheme]


@pytest.mark.parametrize("scheme", list(MOST))
def test_every_way_to_keep_weights_keeps_tables(scheme: str) -> None:
    found = quantise(export(take, (IDS,)), Scheme.parse(scheme))
    assert found.program.golden is not None
    (answer,) = found.program.golden.calls[0].outputs
    assert MOST[scheme] / 20 < off(answer, TABLE[IDS]) < MOST[scheme]
    assert found.error == pytest.approx(off(answer, TABLE[IDS]), rel=0.05)


@pytest.mark.vulkan
@pytest.mark.parametrize("scheme", ["int8", "int4-g32"])
def test_a_gpu_looks_rows_up_in_bytes_too(scheme: str, tmp_path: Path) -> None:
    found = quantise(export(take, (IDS,)), Scheme.parse(scheme))
    path = tmp_path / "table.vmfb"
    compile(found.program, "vulkan", CompileOptions(output=path))
    assert path.stat().st_size < TABLE.nbytes * 0.28 + 60_000
    answer = call(path, "edgert://vulkan", (IDS[::-1].copy(),))
    assert MOST[scheme] / 20 < off(answer, TABLE[IDS[::-1]]) < MOST[scheme]


@pytest.mark.parametrize("target", ["wasm", "webgpu", "cuda", "cpu:riscv64"])
def test_no_target_makes_the_table_of_floats(target: str, tmp_path: Path) -> None:
    found = quantise(export(take, (IDS,)), Scheme(bits=8))
    path = tmp_path / "table.vmfb"
    compile(found.program, target, CompileOptions(output=path, check=False))
    assert path.stat().st_size < TABLE.nbytes * 0.28 + 60_000


def tied() -> Any:
    import torch

    class Tied(torch.nn.Module):
        """A table that is looked up, and the weights of the last product."""

        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(ROWS, INNER, padding_idx=0)
            self.places = torch.nn.Parameter(torch.randn(1, 200, INNER))

        def forward(self, ids: Any, at: Any) -> Any:
            rows = torch.tanh(self.table(ids) + self.places[0][at])
            return torch.nn.functional.linear(rows, self.table.weight)

    torch.manual_seed(0)
    return Tied()


@pytest.fixture(scope="module")
def tied_network() -> tuple[Any, tuple[np.ndarray, ...], np.ndarray]:
    import torch

    network = tied()
    inputs = (IDS.astype(np.int64), np.array([7, 199, 0]))
    with torch.no_grad():
        return network, inputs, network(*map(torch.from_numpy, inputs)).numpy()


@pytest.mark.parametrize("scheme", [pytest.param("int8", marks=pytest.mark.slow), "int4-g32"])
def test_a_table_that_a_product_multiplies_by_too_is_kept_once(
    tied_network: Any, scheme: str, tmp_path: Path
) -> None:
    network, inputs, wanted = tied_network
    found = quantise(export(network, inputs), Scheme.parse(scheme))
    (line,) = found.lines
    assert line.what == f"2 of {INNER} x {ROWS} and others"
    assert line.before == (ROWS + 200) * INNER * 4
    bits = 4.5 if scheme == "int4-g32" else 8.5
    assert found.after <= (ROWS + 200) * INNER * bits / 8 + 2048
    path = tmp_path / "tied.vmfb"
    compile(found.program, "cpu", CompileOptions(output=path))
    assert path.stat().st_size < (ROWS + 200) * INNER * bits / 8 + 60_000
    answer = off(call(path, None, inputs), wanted)
    assert MOST[scheme] / 20 < answer < 2 * MOST[scheme]
    assert found.error == pytest.approx(answer, rel=0.05)


def test_tables_in_a_file_beside_the_program_become_bytes_there(
    tied_network: Any, tmp_path: Path
) -> None:
    network, inputs, wanted = tied_network
    program = export(
        network, inputs, external_weights=tmp_path / "tied.safetensors", folder=tmp_path
    ).save(tmp_path / "tied.mlirbc")
    found = quantise(program, Scheme(bits=8), weights_file="eight.safetensors")
    assert {array.dtype.name for array in found.weights.values()} == {"int8", "float32"}
    write_weights(found.weights, tmp_path / "eight.safetensors")
    assert sum(a.nbytes for a in read_weights(tmp_path / "eight.safetensors").values()) == (
        (ROWS + 200) * (INNER + 4)
    )
    saved = found.program.save(tmp_path / "eight.mlirbc")
    compile(saved, "cpu", CompileOptions(output=tmp_path / "eight.vmfb"))
    with load(tmp_path / "eight.vmfb", weights=tmp_path / "eight.safetensors") as module:
        assert off(module.main(*inputs), wanted) < 2 * MOST["int8"]


def test_bytes_on_both_sides_keep_tables_in_bytes_and_a_shared_one_once(
    tied_network: Any, tmp_path: Path
) -> None:
    network, inputs, wanted = tied_network
    found = quantise_to_bytes(export(network, inputs))
    assert found.after <= (ROWS + 200) * (INNER + 4) + 2048
    assert sum(line.after for line in found.lines) == (ROWS + 200) * (INNER + 4)
    path = tmp_path / "bytes.vmfb"
    facts = compile(found.program, "cpu", CompileOptions(output=path)).facts
    assert facts.kernels is not None
    assert facts.kernels.own_flops > 0.9 * facts.kernels.flops
    assert off(call(path, None, inputs), wanted) < 0.05


@pytest.mark.parametrize("scheme", ["int8", "int4-g32"])
def test_how_many_rows_may_be_open(scheme: str, tmp_path: Path) -> None:
    program = export(take, (IDS,), dynamic="batch=1..8", chunk=0)
    found = quantise(program, Scheme.parse(scheme))
    path = tmp_path / "open.vmfb"
    compile(found.program, "cpu", CompileOptions(output=path))
    assert path.stat().st_size < TABLE.nbytes * 0.28 + 60_000
    for count in (1, 5):
        ids = RNG.integers(0, ROWS, (count, 3)).astype(np.int32)
        assert MOST[scheme] / 20 < off(call(path, None, (ids,)), TABLE[ids]) < MOST[scheme]


def test_a_line_of_a_table_is_measured_chosen_and_kept_as_those_of_products_are() -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((INNER, 80)).astype(np.float32) / 8
    program = export(lambda ids: jnp.tanh(take(ids)) @ weights, (IDS,))
    found = quantise_by_choice(program, max_error=0.03)
    assert found.error <= 0.03
    assert {line.what for line in found.lines} == {f"{ROWS} rows of {INNER}", f"{INNER} x 80"}
    assert all(line.error for line in found.lines)
    table = next(line for line in found.lines if "rows" in line.what)
    left = quantise(program, Scheme(bits=8), keep=(table.where,))
    assert (table.where, table.what, "as asked") in left.kept
    assert len(left.lines) == 1


def columns(ids: Any) -> Any:
    return jnp.take(jnp.asarray(TABLE), ids % INNER, axis=1)


def parts(ids: Any) -> Any:
    return jax.lax.dynamic_slice(jnp.asarray(TABLE), (ids[0, 0], ids[0, 0]), (2, 8))


def known(ids: Any) -> Any:
    return jnp.asarray(TABLE)[jnp.arange(4)[::-1] * 3] + ids[0, 0]


def halves(ids: Any) -> Any:
    return jnp.take(jnp.asarray(TABLE.astype(np.float16)), ids, axis=0)


def few(ids: Any) -> Any:
    return jnp.take(jnp.asarray(TABLE[:60]), ids, axis=0)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (columns, "looked up by other than whole rows"),
        (parts, "looked up by other than whole rows"),
        (known, "always the same rows"),
        (halves, "weights of f16"),
        (few, "fewer than 4,096 weights"),
    ],
)
def test_what_stays_is_told_with_its_reason(function: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        quantise(export(function, (IDS,)), Scheme(bits=8))


def test_rows_that_make_no_whole_groups_and_tables_in_blocks_stay() -> None:
    with pytest.raises(UsageError, match="64 numbers of a row do not make int4-g128"):
        quantise(export(take, (IDS,)), Scheme.parse("int4-g128"))
    once = quantise(export(take, (IDS,)), Scheme(bits=8)).program
    with pytest.raises(UsageError, match="in blocks already, int8 by output"):
        quantise(once, Scheme(bits=8))


def test_matrices_of_which_a_tensor_holds_several_are_said_to_stay() -> None:
    """Experts: cut out one by one, or looked up by their numbers."""
    rng = np.random.default_rng(2)
    one, other = rng.standard_normal((2, 4, 64, 80)).astype(np.float32)
    last = rng.standard_normal((80, 64)).astype(np.float32)

    def experts(x: Any, i: Any) -> Any:
        cut = sum(x @ jnp.asarray(one)[number] for number in range(4))
        return (cut + jnp.einsum("rk,rkn->rn", x, jnp.asarray(other)[i])) @ last

    x = rng.standard_normal((3, 64)).astype(np.float32)
    found = quantise(export(experts, (x, np.array([1, 3, 1]))), Scheme(bits=8))
    assert [line.what for line in found.lines] == ["80 x 64"]
    said = {(what, reason) for _, what, reason in found.kept}
    assert said == {
        ("4 x 64 x 80", "several matrices in one: no kernel reads one of these in blocks")
    }
