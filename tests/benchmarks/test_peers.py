"""The peers benchmark: models say the same in every framework, rows merge, a quick run works."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.accuracy import worst_error
from benchmarks.peers.measure import ROOT
from benchmarks.peers.models.catalogue import MODELS
from benchmarks.peers.page import page, ratio_to_best
from benchmarks.peers.plot import draw
from benchmarks.peers.results import Results, Row, Times
from benchmarks.peers.weights import Weights

RUN = {
    "command": "python -m benchmarks.peers",
    "commit": "0123456789",
    "machine": {
        "cpu": "a CPU",
        "family": "x",
        "features": ["avx2"],
        "cores": 2,
        "memory_gib": 8.0,
        "system": "Linux",
        "python": "3.11",
    },
    "versions": {"onnxruntime": "1.31.1"},
    "repeats": 2,
    "seconds": 0.1,
}


def _row(engine: str, times: tuple[float, ...], model: str = "lstm", threads: int = 1) -> Row:
    build = {"compile": 4.0, "load": 0.5, "first": 0.25}
    return Row(
        model=model,
        engine=engine,
        threads=threads,
        error=1e-6,
        times=Times.of([times, [t + 1 for t in times]]),
        build=build,
        run="2026-01-01T00:00:00Z",
    )


def _results(path: Path, *rows: Row) -> Results:
    results = Results(path)
    results.put(rows, {"2026-01-01T00:00:00Z": RUN})
    return results


def test_weights_are_the_same_at_every_asking_and_differ_by_name() -> None:
    first, second = Weights(), Weights()
    assert np.array_equal(first.kernel("a", (64, 32)), second.kernel("a", (64, 32)))
    assert not np.array_equal(first.kernel("a", (64, 32)), first.kernel("b", (64, 32)))
    assert abs(first.kernel("a", (64, 32)).std() * 8 - 1) < 0.1


def test_real_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(3,\).*\(4,\)"):
        Weights({"a": np.zeros(3, np.float32)}).bias("a", 4)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("mobilenet_v3", marks=pytest.mark.slow),
        "vit_tiny",
        pytest.param("decoder_step", marks=pytest.mark.slow),
        "audio_cnn",
        "lstm",
    ],
)
def test_a_model_says_the_same_in_jax_onnx_and_torch(name: str, tmp_path: Path) -> None:
    import jax
    import onnxruntime

    from benchmarks.peers.engines.source_files import (
        jax_function,
        onnx_file,
        onnx_inputs,
        reference,
    )

    model = MODELS[name]
    wanted = reference(model, tmp_path)
    from_jax = jax.jit(jax_function(model))(*model.example())
    session = onnxruntime.InferenceSession(str(onnx_file(model, tmp_path)))
    from_onnx = session.run(None, onnx_inputs(model))
    assert max(np.abs(array).max() for array in wanted) > 0.01
    assert worst_error([np.asarray(a) for a in from_jax], wanted) < 2e-5
    assert worst_error(from_onnx, wanted) < 2e-5


def test_transposed_convolutions_say_the_same_in_jax_onnx_and_torch(tmp_path: Path) -> None:
    import jax
    import onnxruntime

    from benchmarks.peers.engines.source_files import (
        jax_function,
        onnx_file,
        onnx_inputs,
        reference,
    )

    kernel = Weights().kernel("up", (2, 2, 3, 5))
    model = replace(
        MODELS["unet"],
        define=lambda net, weights, x: (
            net.image(net.up_conv(x, kernel, weights.bias("bias", 5))),
        ),
    )
    wanted = reference(model, tmp_path)
    assert wanted[0].shape == (1, 256, 256, 5)
    from_jax = jax.jit(jax_function(model))(*model.example())
    session = onnxruntime.InferenceSession(str(onnx_file(model, tmp_path)))
    assert worst_error([np.asarray(a) for a in from_jax], wanted) < 1e-5
    assert worst_error(session.run(None, onnx_inputs(model)), wanted) < 1e-5


def test_minilm_is_the_model_that_transformers_runs(tmp_path: Path) -> None:
    import torch

    from benchmarks.peers.engines.source_files import reference
    from samples.sentences.model import Embedder

    ids, mask = (torch.from_numpy(array) for array in MODELS["minilm"].example())
    with torch.inference_mode():
        theirs = Embedder().eval()(ids, mask).numpy()
    assert worst_error([theirs], reference(MODELS["minilm"], tmp_path)) < 1e-4


def test_errors_are_parts_of_the_largest_value_and_nonsense_is_infinite() -> None:
    wanted = [np.array([1.0, -4.0]), np.array([[2.0]])]
    assert worst_error([np.array([1.0, -4.0]), np.array([[2.5]])], wanted) == 0.25
    assert worst_error([np.array([1.0, -3.0]), np.array([[2.0]])], wanted) == 0.25
    assert worst_error([np.array([1.0, np.nan]), np.array([[2.0]])], wanted) == float("inf")
    assert worst_error([np.array([1.0, -4.0]), np.array([2.0])], wanted) == float("inf")
    assert worst_error([np.array([1.0, -4.0])], wanted) == float("inf")


def test_a_later_measurement_replaces_the_same_row_only(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    _results(path, _row("edgec", (8.0, 9.0)), _row("ort", (4.0,)), _row("ort", (2.0,), threads=2))
    again, meanwhile = Results(path), Results(path)
    meanwhile.put([_row("edgec", (7.0,), model="unet")], {})
    again.put([_row("edgec", (3.0, 5.0))], {})
    kept = Results(path)
    assert len(kept.rows) == 4
    row = kept.get("lstm", "edgec", 1)
    assert row is not None
    assert (row.fastest, row.median) == (3.0, 4.5)
    other = kept.get("lstm", "ort", 2)
    assert other is not None
    assert other.fastest == 2.0


def test_rows_of_models_that_are_gone_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    _results(path, _row("edgec", (8.0,)), _row("edgec", (4.0,), model="no_such_model"))
    assert [row.model for row in Results(path).rows] == ["lstm"]


def test_a_file_that_holds_no_results_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text('{"rows": 3}')
    with pytest.raises(ValueError, match="holds no benchmark results"):
        Results(path)


def test_the_ratio_is_to_the_best_engine_that_is_right() -> None:
    ours, slow, fast = _row("edgec", (4.0,)), _row("ort", (3.0,)), _row("xla", (2.0,))
    assert ratio_to_best([ours, slow, fast]) == 0.5
    assert ratio_to_best([ours, slow, replace(fast, error=0.1)]) == 0.75
    assert ratio_to_best([ours, slow, replace(fast, refused="no", times=None)]) == 0.75
    assert ratio_to_best([slow, fast]) is None
    assert ratio_to_best([ours, slow, _row("edgert", (1.0,))]) == 0.75  # edgec's own, no peer
    assert ratio_to_best([ours, slow, _row("edgert", (1.0,))], "edgert") == 3.0


def test_what_a_framework_has_no_form_of_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.peers.measure import Measurement

    monkeypatch.setattr("benchmarks.peers.measure.model_folder", lambda model: tmp_path)
    measurement = Measurement(
        engines=["xla", "ort"],
        threads=[1],
        repeats=1,
        seconds=0.02,
        tell=lambda line: None,
        run="now",
    )
    no_form, quantised = measurement.rows("mobilenet_v2_i8")
    assert no_form.refused == "JAX has no quantised form of it"
    assert quantised.right
    assert quantised.error is not None
    assert quantised.error > 1e-3


def test_company_counts_other_processes_and_not_oneself() -> None:
    from benchmarks.peers.company import Company

    company = Company()
    end = time.perf_counter() + 0.5
    before = time.process_time()
    while time.perf_counter() < end:
        pass
    own, cores = (time.process_time() - before) / 0.5, company.cores()
    assert cores is not None
    assert 0 <= cores <= (os.cpu_count() or 1) - own + 0.3
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        time.sleep(0.3)
        company = Company()
        time.sleep(0.7)
        found = company.cores()
        other.kill()
    assert found is not None
    assert found > 0.3


def test_the_page_shows_times_refusals_and_wrong_answers(tmp_path: Path) -> None:
    results = _results(
        tmp_path / "benchmarks.json",
        _row("edgec", (4.0,)),
        _row("iree", (8.0,)),
        replace(_row("ort", (1.0,)), error=0.5, others=0.75),
        replace(_row("litert", ()), refused="NotImplementedError: no <such> thing", times=None),
    )
    text = page(results, "benchmarks.png", [])
    assert "| LSTM, 100 steps | **4.00** (4.50) | 8.00 (8.50) | wrong by 5e-01 |" in text
    assert "refused [1] | 2.00 |" in text
    assert "1. NotImplementedError: no &lt;such> thing" in text
    assert "| LSTM, 100 steps | 4.0 | 4.0 | 1.00 | 0.75 |" in text
    assert "kept 0.8 cores busy on average" in text
    assert draw(results, tmp_path / "benchmarks.png")
    assert (tmp_path / "benchmarks.png").stat().st_size > 5_000


@pytest.mark.slow
def test_a_quick_run_measures_writes_and_merges(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.peers", "--model", "audio_cnn", "--repeats", "2"]
    command += ["--seconds", "0.05", "--threads", "1", "--output", str(tmp_path)]
    for engines in (["edgec", "edgert", "iree", "ort"], ["ort"]):
        words = [word for engine in engines for word in ("--engine", engine)]
        done = subprocess.run(
            [*command, *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    assert {row["engine"] for row in kept["rows"]} == {"edgec", "edgert", "iree", "ort"}
    for row in kept["rows"]:
        assert "refused" not in row
        assert row["error"] < 1e-5
        assert row["times"]["calls"] >= 6
    assert len({row["run"] for row in kept["rows"]}) == 2
    assert re.search(r"\| 1-D audio CNN \|.*\d", (tmp_path / "benchmarks.md").read_text())


def test_an_engine_that_fails_is_a_row_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.peers.measure import Measurement

    monkeypatch.setattr("benchmarks.peers.measure.model_folder", lambda model: tmp_path)
    lines: list[str] = []
    measurement = Measurement(
        engines=["no_such_engine", "ort"],
        threads=[1],
        repeats=1,
        seconds=0.02,
        tell=lines.append,
        run="now",
    )
    bad, good = measurement.rows("audio_cnn")
    assert bad.refused == "KeyError: 'no_such_engine'"
    assert bad.times is None
    assert good.refused == ""
    assert good.fastest > 0
    assert any("refused: KeyError" in line for line in lines)
