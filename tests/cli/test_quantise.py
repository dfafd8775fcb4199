"""`edgec quantise`: the program that comes out, what is said of it, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.cli.amounts import bytes_text
from edgec.exporters import export
from edgec.quantising import Scheme
from edgec.quantising.rounding import round_weights
from edgec.runtime import load
from edgec.runtime.golden import Golden
from edgec.toolchain import load_program
from edgec.toolchain.weights_file import read_weights

MODEL = """
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
wide = (rng.standard_normal((64, 96)) / 8).astype(np.float32)
back = (rng.standard_normal((96, 64)) / 8).astype(np.float32)
last = (rng.standard_normal((64, 80)) / 8).astype(np.float32)
small = rng.standard_normal((80, 5)).astype(np.float32)


def apply(x):
    y = jax.nn.relu(x @ wide)
    y = x + y @ back
    y = jnp.tanh(y @ last)
    return y @ small


def model():
    return apply, (rng.standard_normal((4, 64)).astype(np.float32),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's program, with its weights inside and outside."""
    folder = tmp_path_factory.mktemp("quantise")
    (folder / "model.py").write_text(MODEL)
    scope: dict[str, object] = {}
    exec(compile(MODEL, str(folder / "model.py"), "exec"), scope)
    apply, inputs = scope["model"]()
    export(apply, inputs).save(folder / "inside.mlirbc")
    outside = folder / "outside.safetensors"
    export(apply, inputs, external_weights=outside).save(folder / "outside.mlirbc")
    return folder


def test_a_program_comes_out_with_answers_of_its_own_and_a_table(edgec, folder: Path) -> None:
    done = edgec("quantise", folder / "inside.mlirbc", "-o", "eight.mlirbc", "--weights=int8")
    assert done.code == 0, done.err
    assert "model.py:14  64 x 96  int8" in done.out.replace("   ", "  ")
    assert "80 x 5   fewer than 4,096 weights" in done.out
    value = edgec(
        "quantise", folder / "inside.mlirbc", "-o", "eight.mlirbc", "--weights=int8", "--json"
    ).json
    assert 0 < value["error"] < 0.02
    assert value["after"] < value["before"] / 3
    assert [line["error"] for line in value["lines"]] == sorted(
        (line["error"] for line in value["lines"]), reverse=True
    )
    original, new = (
        Golden.load(path) for path in (folder / "inside.golden.npz", Path("eight.golden.npz"))
    )
    (one,), (other,) = original.calls[0].outputs, new.calls[0].outputs
    assert 0 < np.abs(one - other).max() < 0.1 * np.abs(one).max()
    assert np.array_equal(original.calls[0].inputs[0], new.calls[0].inputs[0])


def test_the_module_is_proved_by_these_answers_and_reads_the_blocks(edgec, folder: Path) -> None:
    assert edgec("quantise", folder / "outside.mlirbc", "-o", "four.mlirbc", "--weights=int4-g32")
    done = edgec("compile", "four.mlirbc", "-o", "four.vmfb", "--validate")
    assert done.code == 0, done.err
    assert "checked on a CPU" in done.out
    assert "3 product by blocks" in done.err
    assert re.search(r"weights of int4-g32: .* off by \d+\.\d\d% of their spread", done.err)
    weights = read_weights(Path("four.safetensors"))
    assert sorted({array.dtype.name for array in weights.values()}) == [
        "float16",
        "float32",
        "int8",
    ]


def test_what_is_in_blocks_already_stays_so_and_is_said(edgec, folder: Path) -> None:
    assert edgec("quantise", folder / "inside.mlirbc", "-o", "once.mlirbc", "--weights=int8")
    done = edgec("quantise", "once.mlirbc", "-o", "twice.mlirbc", "--weights=int4-g32")
    assert done.code == 2
    assert "64 x 96 and 2 more: in blocks already, int8 by output" in done.err


def test_rounded_weights_that_were_written_out_go_back_into_blocks(edgec, folder: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((96, 64)).astype(np.float32)
    floats = round_weights(weights, Scheme.parse("int8-g32")).floats()
    export(lambda x: x @ floats.T, (rng.standard_normal((2, 64)).astype(np.float32),)).save(
        "floats.mlirbc"
    )
    value = edgec(
        *("quantise", "floats.mlirbc", "-o", "blocks.mlirbc", "--weights=lossless", "--json")
    ).json
    assert [line["weights"] for line in value["lines"]] == ["int8-g32"]
    assert value["error"] < 1e-6
    assert value["after"] < value["before"] / 3


def test_errors_are_of_as_many_calls_as_are_asked_for(edgec, folder: Path) -> None:
    program = load_program(folder / "inside.mlirbc")
    golden = Golden(calls=program.golden.calls * 3)
    replace(program, golden=golden).save("often.mlirbc")
    done = edgec("quantise", "often.mlirbc", "-o", "twice.mlirbc", "--calls=2")
    assert "errors are of the first 2 of 3 golden calls" in done.err
    assert len(Golden.load(Path("twice.golden.npz")).calls) == 2


def test_scales_are_f32_where_that_is_asked_for_and_mean_the_same(edgec, folder: Path) -> None:
    line = ("quantise", folder / "outside.mlirbc", "--weights=int4-g32", "-o")
    errors = [
        edgec(*line, f"{scales}.mlirbc", f"--scales={scales}", "--json").json["error"]
        for scales in ("f16", "f32")
    ]
    assert errors[0] == errors[1]
    kinds = {array.dtype.name for array in read_weights(Path("f32.safetensors")).values()}
    assert kinds == {"float32", "int8"}


@pytest.mark.sweep(fast=1)
@pytest.mark.parametrize("name", ["inside", "outside"])
def test_choices_are_timed_on_a_device_that_is_here(edgec, folder: Path, name: str) -> None:
    line = ("quantise", folder / f"{name}.mlirbc", "-o", "timed.mlirbc", "--weights=auto")
    told = edgec(*line, "--target=cpu", "--device=cpu?threads=1", "--max-error=5%", "--json").json
    times = told["times"]
    assert (times["target"], times["function"]) == ("cpu:host", "main")
    seconds = [times["before"], times["after"], *(each["seconds"] for each in told["choices"])]
    assert len(seconds) > 3
    assert all(1e-7 < each < 10 for each in seconds)
    assert " a call " in edgec(*line, "--target=cpu", "--max-error=5%").out
    wrong = edgec(*line, "--device=cpu")
    assert (wrong.code, "add --target" in wrong.err) == (2, True)
    missing = edgec(*line, "--target=cpu:arm64")
    assert missing.code == 41
    assert "next: measure where the device is" in missing.err


def test_each_line_has_the_fewest_bits_that_an_error_lets_it_have(edgec, folder: Path) -> None:
    source = folder / "inside.mlirbc"
    sizes = []
    for most in (0.5, 0.05, 0.01):
        told = edgec(
            *("quantise", source, "-o", "auto.mlirbc", "--weights=auto", f"--max-error={most}"),
            "--json",
        ).json
        assert told["error"] <= most
        (taken,) = (each for each in told["choices"] if each["taken"])
        smaller = [each for each in told["choices"] if each["size"] < taken["size"]]
        assert taken["error"] <= most < min((each["error"] for each in smaller), default=1.0)
        assert taken["size"] == sum(line["after"] for line in told["lines"])
        for line in told["lines"]:
            assert line["error"] == line["tried"][line["weights"]]
            assert line["tried"]["int8"] < line["tried"]["int4-g32"]
        sizes.append(taken["size"])
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    # NumPy's own answers, with nothing that made the choice.
    assert load_program("auto.mlirbc").golden is not None
    refused = edgec("quantise", source, "-o", "no.mlirbc", "--weights=auto", "--max-error=1e-6")
    assert refused.code == 23
    assert "no line can be rounded within" in refused.err
    assert not Path("no.mlirbc").exists()
    wrong = edgec(
        *("quantise", source, "-o", "no.mlirbc", "--weights=auto", "--activations=int8-dynamic")
    )
    assert wrong.code == 2


def test_lines_that_are_named_stay_as_they_are(edgec, folder: Path) -> None:
    value = edgec(
        *("quantise", folder / "inside.mlirbc", "-o", "some.mlirbc", "--weights=int4-g32"),
        *("--keep=model.py:14", "--json"),
    ).json
    assert not [line for line in value["lines"] if line["where"].endswith("model.py:14")]
    assert [each["why"] for each in value["kept"] if each["what"] == "64 x 96"] == ["as asked"]
    program = load_program(Path("some.mlirbc"))
    assert program.info.weights is None


def test_more_error_than_is_allowed_is_refused_with_what_to_keep(edgec, folder: Path) -> None:
    line = ("quantise", folder / "inside.mlirbc", "-o", "exact.mlirbc", "--weights=int4")
    done = edgec(*line, "--max-error=9%")
    assert done.code == 23
    assert "and 9.00% is allowed" in done.err
    kept = [word for word in done.err.split() if word.startswith("--keep=")]
    assert kept
    assert not Path("exact.mlirbc").exists()
    assert edgec(*line, "--max-error=9%", *kept).code == 0
    hopeless = edgec(*line, "--max-error=0.0001%")
    assert "no line can be rounded within" in hopeless.err


def test_compile_rounds_by_a_flag_as_quantise_does(edgec, folder: Path) -> None:
    done = edgec("compile", folder / "inside.mlirbc", "--precision=int8", "-o", "flag.vmfb")
    assert done.code == 0, done.err
    assert "checked on a CPU" in done.out
    verb = ("quantise", folder / "inside.mlirbc", "-o", "verb.mlirbc", "--weights=int8", "--json")
    value = edgec(*verb).json
    sizes = f"{bytes_text(value['before'])} before, {bytes_text(value['after'])} after"
    assert f"weights of int8: {sizes}; left as they are: 80 x 5: fewer than 4,096" in done.err
    assert f"and are off by {value['error']:.2%} of their spread" in done.err
    assert "no kernel" not in done.err


def test_a_target_whose_kernels_read_no_integers_says_that_nothing_is_won(
    edgec, folder: Path
) -> None:
    target = ("--target=wasm:plain", "-o", "plain.vmfb", "--no-check")
    done = edgec("compile", folder / "inside.mlirbc", "--precision=int8", *target)
    assert done.code == 0, done.err
    assert "no kernel for wasm:plain reads weights of int8" in done.err
    assert "is no smaller for it" in done.err


def test_rounded_weights_of_a_program_that_keeps_them_outside_go_into_a_file_of_their_own(
    edgec, folder: Path
) -> None:
    done = edgec("compile", folder / "outside.mlirbc", "--precision=int8", "-o", "out.vmfb")
    assert done.code == 0, done.err
    kinds = {a.dtype.name for a in read_weights(folder / "outside.int8.safetensors").values()}
    assert kinds == {"int8", "float32"}
    assert "in outside.int8.safetensors" in done.err
    x = Golden.load(folder / "outside.golden.npz").calls[0]
    with load(Path("out.vmfb")) as module:
        np.testing.assert_allclose(module.main(*x.inputs), x.outputs[0], atol=0.3)


def test_a_flag_that_costs_too_much_is_refused_with_the_way_to_keep_lines(
    edgec, folder: Path
) -> None:
    line = ("compile", folder / "inside.mlirbc", "--precision=int8", "-o", "worse.vmfb")
    done = edgec(*line, "--max-error=0.4%")
    assert done.code == 23
    assert "0.40% is allowed" in done.err
    assert "no line can be rounded within 0.40%" in done.err
    assert "inside.mlirbc -o NEW.mlirbc takes that" in done.err
    assert not Path("worse.vmfb").exists()
    assert edgec("compile", folder / "inside.mlirbc", "--max-error=1%").code == 2
    odd = edgec("compile", folder / "inside.mlirbc", "--precision=int7")
    assert odd.code == 2
    assert "say declared, f16 or int8" in odd.err


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("--weights=int3",), 2, "there is no way int3 to keep weights"),
        (("--weights=int4-g33",), 2, "there is no way int4-g33"),
        (("--max-error=lots",), 2, "--max-error=lots is no part of a whole"),
        (("--max-error=-1%",), 2, "is no part of a whole"),
        (("--keep=model.py:3",), 2, "no product by weights, and no table, is at model.py:3"),
        (("--weights=int4-g128",), 2, "64 summed do not make int4-g128"),
        (("--weights=lossless",), 2, "no blocks hold it exactly"),
        (("--scales=bf16",), 2, "scales are not kept as bf16"),
    ],
)
def test_what_cannot_be_done_is_one_error(
    edgec, folder: Path, arguments: tuple[str, ...], code: int, what: str
) -> None:
    done = edgec("quantise", folder / "inside.mlirbc", "-o", "none.mlirbc", *arguments)
    assert done.code == code
    assert what in done.err
    assert not Path("none.mlirbc").exists()


def test_a_program_without_answers_or_weights_is_refused(edgec, folder: Path) -> None:
    program = load_program(folder / "inside.mlirbc")
    program.save("same.mlirbc")
    assert "written over itself" in edgec("quantise", "same.mlirbc", "-o", "same.mlirbc").err
    Path("same.golden.npz").unlink()
    done = edgec("quantise", "same.mlirbc", "-o", "new.mlirbc")
    assert done.code == 15
    assert "no golden answers" in done.err
    export(lambda x: x * 2, (np.ones(3, np.float32),)).save("plain.mlirbc")
    done = edgec("quantise", "plain.mlirbc", "-o", "new.mlirbc")
    assert done.code == 2
    assert "has no weights that int8 fits" in done.err


STATE = """
import jax.numpy as jnp
import numpy as np
from edgec.exporters import Bundle, Entry


def step(state, x):
    kept = state["kept"].at[state["at"]].set(x)
    return {"kept": kept, "at": state["at"] + 1}, kept.sum(0)


def model():
    state = {"kept": np.zeros((8, 32), np.float32), "at": np.int32(0)}
    x = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    return Bundle((Entry(step, (x,), name="step", updates_state=True),), state=state)
"""


def test_a_cache_alone_is_kept_in_halves_and_sizes_are_told(edgec, tmp_path: Path) -> None:
    (tmp_path / "state.py").write_text(STATE)
    program = tmp_path / "state.mlirbc"
    assert edgec("export", f"{tmp_path / 'state.py'}:model", "-o", program).code == 0
    line = ("quantise", program, "-o", tmp_path / "halves.mlirbc")
    done = edgec(*line, "--cache=f16", "--json")
    assert done.code == 0, done.err
    assert done.json["states"] == {"before": 8 * 32 * 4 + 4, "after": 8 * 32 * 2 + 4}
    assert done.json["lines"] == []
    assert [spec.dtype.value for spec in load_program(line[3]).info.states] in (
        ["f16", "i32"],
        ["i32", "f16"],
    )
    for wrong, hint in (("--cache=int8", "--cache=f16"), ("--weights=none", "--cache=f16 alone")):
        refused = edgec(*line, wrong)
        assert refused.code == 2
        assert hint in refused.err
