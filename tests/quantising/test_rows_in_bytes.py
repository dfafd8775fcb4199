"""Products by weights in blocks whose rows are rounded to bytes at every call."""

from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export
from edgec.quantising import Scheme, quantise, quantise_with_rounded_rows
from edgec.quantising.ties import with_ties
from edgec.runtime import load
from edgec.runtime.errors import UsageError, WrongAnswer
from edgec.runtime.golden import GoldenCall
from edgec.toolchain import CompileOptions, Program, compile
from edgec.toolchain.weights_file import write_weights


def network(x):
    import jax

    rng = np.random.default_rng(0)
    wide, back = (
        (rng.standard_normal(shape) / 8).astype(np.float32) for shape in ((64, 128), (128, 64))
    )
    return jax.nn.gelu(x @ wide) @ back


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("rows")
    x = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    made = export(network, (x,), external_weights=folder / "network.safetensors", folder=folder)
    return made.save(folder / "network.mlirbc")


def test_a_module_multiplies_bytes_and_gives_the_programs_own_answers(
    program: Program, tmp_path: Path
) -> None:
    scheme = Scheme.parse("int8-g32")
    plain = quantise(program, scheme)
    found = quantise_with_rounded_rows(program, scheme, weights_file=Path("rows.safetensors"))
    assert plain.error < found.error < 0.03
    write_weights(found.weights, tmp_path / "rows.safetensors")
    saved = found.program.save(tmp_path / "rows.mlirbc")
    module = compile(saved, "cpu", CompileOptions(output=tmp_path / "rows.vmfb"))
    assert module.facts.check.startswith("checked")
    # A program that is in blocks already is rounded no further, and needs no weights to choose.
    again = quantise_with_rounded_rows(
        plain.program if plain.program.path else _saved(plain, tmp_path / "plain.mlirbc"),
        scheme,
        weights_file=Path("again.safetensors"),
    )
    assert again.lines == ()
    assert set(again.weights) == set(found.weights)
    assert program.golden is not None
    with load(tmp_path / "rows.vmfb") as loaded:
        answer = np.asarray(loaded.main(*program.golden.calls[0].inputs))
    np.testing.assert_allclose(answer, again.program.golden.calls[0].outputs[0], 1e-3, 1e-3)


def _saved(found, path: Path) -> Program:
    write_weights(found.weights, path.parent / found.program.info.weights.file)
    return found.program.save(path)


def test_a_bound_is_kept_and_a_program_without_such_weights_refused(program: Program) -> None:
    with pytest.raises(WrongAnswer, match="rounded to bytes"):
        quantise_with_rounded_rows(program, Scheme.parse("int8-g32"), max_error=1e-4)
    small = export(lambda x: x @ x, (np.ones((8, 8), np.float32),))
    with pytest.raises(UsageError, match="no products by weights in blocks"):
        quantise_with_rounded_rows(small, Scheme.parse("int8-g32"))


def test_tokens_that_are_as_good_may_be_given_in_place_of_the_best() -> None:
    def call(token: int, name: str = "decode") -> GoldenCall:
        return GoldenCall(signature=name, inputs=(), outputs=(np.int32(token).reshape(()),))

    scores = np.array([0.0, 5.0, 4.99, 4.5])
    near, far, other = with_ties(
        [call(1), call(1), call(0, "reset")], [scores, scores * 100, scores], 0.02
    )
    assert [list(each) for each in near.others] == [[2]]
    assert far.others == ()
    assert other.others == ()  # what it gives is no token
