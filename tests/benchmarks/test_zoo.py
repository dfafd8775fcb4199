"""The zoo: subjects drawn by chance that is the same every time, rows kept, children contained."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from benchmarks.coverage.process import in_child
from benchmarks.zoo import kept
from benchmarks.zoo.catalogue import KINDS, kind_of
from benchmarks.zoo.compile_time import spent
from benchmarks.zoo.decided import without_decided
from benchmarks.zoo.kinds import onnx_nodes
from benchmarks.zoo.nursery import Nursery
from benchmarks.zoo.page import page
from benchmarks.zoo.plot import draw
from benchmarks.zoo.row import ARM, LACKS, SLOW, Row, Store
from benchmarks.zoo.settled import unsettled
from benchmarks.zoo.subject import Subject, drawn, sampled
from benchmarks.zoo.sweep import CodeChanged, Sweep, code_digest
from edgec.exporters import export_source
from edgec.runtime import Golden

DOCS = Path(__file__).resolve().parents[2] / "docs"


def row(name: str = "m", **parts: object) -> Row:
    given: dict[str, Any] = {"held_out": False, **parts}
    return Row(kind="k", name=name, code="c", **given)


def test_the_order_depends_on_the_names_and_not_on_the_list() -> None:
    names = [f"model{n}" for n in range(200)]
    assert drawn("k", names) == drawn("k", names[::-1])
    assert [s.name for s in drawn("k", names)] != names
    assert 20 <= sum(s.held_out for s in drawn("k", names)) <= 60


def test_a_sample_is_spread_over_the_kinds_and_depends_on_its_seed_alone() -> None:
    subjects = [Subject(kind=k, name=f"{k}{n}") for k, count in SIZES.items() for n in range(count)]
    found = sampled(subjects, 12, seed=1)
    assert found == sampled(subjects[::-1], 12, seed=1)
    assert found != sampled(subjects, 12, seed=2)
    assert Counter(subject.kind for subject in found) == {"a": 5, "b": 5, "c": 2}


SIZES = {"a": 40, "b": 20, "c": 2}


def test_every_kind_lists_its_models() -> None:
    assert len(kind_of("users").names()) == 12
    assert set(KINDS) >= {"users", "onnx-nodes"}


def test_a_row_is_kept_and_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path / "zoo.jsonl")
    store.put(row(export={"error": "Crash", "what": "it died"}))
    store.put(row("n", results={"cpu": {"ok": True}}))
    store.put(row(results={"cpu": {"ok": False, "problem": "off", "where": "/a/b/m.py:3"}}))
    found = Store(tmp_path / "zoo.jsonl").rows
    assert {key: r.state("cpu") for key, r in found.items()} == {"k/m": "wrong", "k/n": "right"}
    assert found["k/m"].reason("cpu") == "off"
    assert found["k/m"].results["cpu"]["where"] == "m.py:3"  # folders are this machine's


def test_rows_kept_beside_the_page_say_all_that_it_tells(tmp_path: Path) -> None:
    fine = {"cpu": {"ok": True, "seconds": 3.5, "max_abs": 1e-7, "own": 0.98765, "device": "d"}}
    refused = {"error": "UnsupportedOp", "what": "no such thing in /a/b/m.py:3", "where": "%1"}
    made = [
        *(row(name, commit="a" * 10, results=fine) for name in ("one", "two")),
        row("timed", commit="b" * 10, results=fine, times={"1": {"edgec": 2.0, "ort": 3.0}}),
        row("three", export={"seconds": 2.0}, results={"cpu": {"ok": False, "problem": "off"}}),
        row("four", export=refused, results={"cpu": refused, "vulkan": refused}),
    ]
    rows = [replace(r, kind="timm") for r in made] + [replace(made[0], kind="flax", held_out=True)]
    kept.write(tmp_path, rows)
    found = kept.read(tmp_path)
    assert found["timm/one"] == replace(found["timm/two"], name="one")
    assert (tmp_path / "timm.json").read_text().count('"ok": true') == 2  # of "one", "two" once
    assert found["timm/four"].reason("vulkan") == "no such thing in m.py:3"
    said = [
        page(sorted(some, key=lambda r: r.key), picture="zoo.png", commits=())
        for some in (found.values(), rows)
    ]
    assert said[0] == said[1].replace("/a/b/", "")
    assert all(word in said[0] for word in ("99%", "UnsupportedOp", "| three | wrong |"))


def test_a_file_that_holds_no_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text('{"names": 3}')
    with pytest.raises(ValueError, match="holds no rows of the zoo"):
        kept.read(tmp_path)


def test_the_zoos_page_is_made_of_the_rows_beside_it() -> None:
    rows = sorted(kept.read(DOCS / "zoo").values(), key=lambda row: row.key)
    commits = {commit for row in rows for commit in row.commits}
    assert (DOCS / "zoo.md").read_text() == page(rows, picture="zoo.png", commits=commits)


def test_a_ratio_is_of_the_best_peer() -> None:
    times = {"1": {"edgec": 2.0, "ort": 3.0, "openvino": 1.0, "errors": {"ort": 1e-6}}}
    assert row(times=times).ratio(1) == (0.5, "openvino")
    assert row(times=times).ratio(2) is None
    assert row(times={"1": {"edgec": "refused", "ort": 3.0}}).ratio(1) is None


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "Crash"),
        ("import time; time.sleep(60)", "Timeout"),
        ("import time; held = bytearray(3 << 28); time.sleep(60)", "Memory"),
    ],
)
def test_a_child_that_fails_is_a_result(
    code: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("benchmarks.coverage.process.ROOT", tmp_path)
    found = in_child("failing", seconds=2 if error == "Timeout" else 30, memory=1 << 28)
    assert found["error"] == error


def test_the_page_says_what_is_right_and_how_fast(tmp_path: Path) -> None:
    times = {"1": {"edgec": 2.0, "ort": 3.0, "errors": {}}}
    fine = Row(
        kind="users",
        name="fine",
        held_out=True,
        code="c",
        results={"cpu": {"ok": True, "own": 0.98}, "vulkan": {"ok": True}},
        times=times,
    )
    wrong = Row(
        kind="users",
        name="other",
        held_out=False,
        code="c",
        results={"cpu": {"ok": False, "problem": "3 values | are off"}},
    )
    assert draw([fine, wrong], tmp_path / "zoo.png")
    assert 1000 < (tmp_path / "zoo.png").stat().st_size < 50_000
    text = page([fine, wrong], picture="zoo.png", commits={"0123456789"})
    assert "| users | held out | 1 | 1 of 1 (100%) | 1 of 1 (100%) |" in text
    assert "| users | worked on | 1 | 0 of 1 (0%, 1 wrong) |  |" in text
    assert "| fine | 2.00 ms, **1.50** (ort) | 98% |" in text
    assert "| other | wrong |  | 3 values \\| are off |" in text


def test_a_row_keeps_what_was_measured_before_and_says_at_which_commit() -> None:
    parts = {"cpu": {"ok": True}, "vulkan": {"ok": False}}
    before = row(commit="a" * 10, results=parts, times={"1": {"edgec": 1.0}})
    now = row(commit="b" * 10, results={"cpu": {"ok": True}}).with_older(before)
    assert now.results == parts
    assert now.commits == {"a" * 10, "b" * 10}
    assert now.measured == {"vulkan": "a" * 10, "1": "a" * 10}
    refused = row(commit="c" * 10, export={"error": "Crash", "what": "it died"}).with_older(now)
    assert (refused.results, refused.times, refused.commits) == ({}, {}, {"c" * 10})


def test_what_a_device_is_too_slow_for_or_has_not_is_counted_apart() -> None:
    kind = "onnx-files"
    errors = [{"error": word, "what": ""} for word in (SLOW, LACKS, "Timeout")]
    results: list[dict[str, object]] = [{"ok": True}, *errors]
    rows = [
        Row(kind=kind, name=str(n), held_out=False, code="c", results={"vulkan": found})
        for n, found in enumerate(results)
    ]
    text = page(rows, picture=None, commits=())
    assert f"| {kind} | worked on | 4 |  | 1 of 2 (50%); 1 {SLOW}; 1 {LACKS} |" in text


def test_an_export_that_failed_counts_for_the_devices_that_were_asked_for() -> None:
    failed = {"error": "UnsupportedOp", "what": "it returns a set"}
    asked = Row(
        kind="timm", name="a", held_out=False, code="c", export=failed, results={"vulkan": failed}
    )
    not_asked = Row(kind="timm", name="b", held_out=False, code="c", export=failed)
    text = page([asked, not_asked], picture=None, commits=())
    assert "| timm | worked on | 2 | 0 of 2 (0%) | 0 of 1 (0%) |" in text


def test_of_a_long_list_the_page_gives_the_number_and_the_file() -> None:
    fine = {"cpu": {"ok": True}}
    rows = [Row(kind="timm", name=f"m{n}", held_out=False, results=fine) for n in range(1234)]
    text = page(rows, picture=None, commits=())
    assert "Right where they ran: 1,234; [zoo/timm.json](zoo/timm.json)." in text
    assert "m77" not in text


def test_what_a_piece_of_work_took_counts_the_processes_that_it_started() -> None:
    busy = "import time\nwhile time.process_time() < 0.35: pass"  # ticks are a hundredth

    def work() -> int:
        return subprocess.run([sys.executable, "-c", busy], check=True).returncode

    result, taken = spent(work)
    assert result == 0
    assert taken["core"] >= 0.3
    assert taken["seconds"] >= 0.3


def test_compile_times_are_kept_and_told_beside_the_compiler_alone() -> None:
    timed = {
        "edgec": {"seconds": 3.0, "core": 2.0},
        "passes": 1.0,
        "plain": {"seconds": 1.0, "core": 1.0},
    }
    refused = {**timed, "plain": {"error": "the compiler alone ends with 1"}}
    rows = [row(compiles={"cpu": timed}), row("n", compiles={"cpu": refused})]
    assert [r.compile_ratio("cpu", "core") for r in rows] == [2.0, None]
    text = page(rows, picture=None, commits=())
    assert "| cpu | 1 | 2.00 | 2.00 | 0% | 3.00 |" in text
    before = row(commit="a" * 10, compiles={"cpu": timed})
    now = row(commit="b" * 10, results={"cpu": {"ok": True}}).with_older(before)
    assert now.compile_ratio("cpu", "seconds") == 3.0
    assert now.commits == {"a" * 10, "b" * 10}


def test_instructions_on_arm_are_kept_and_told_beside_the_best_peer() -> None:
    counts = {"edgec": 2_000_000, "ort": 3_000_000, "litert": "ended with 1: no such operator"}
    counted = row(commit="a" * 10, arm=counts)
    assert counted.arm_ratio == (1.5, "ort")
    apart = row("n", held_out=True, arm={"edgec": 4_000_000, "ort": 3_000_000})
    text = page([counted, apart, row("o")], picture=None, commits=())
    assert "- worked on: median 1.50, worst 1.50, 1 of 1 at or above 1" in text
    assert "- held out: median 0.75, worst 0.75, 0 of 1 at or above 1" in text
    assert "| k/m | 2.00 | **1.50** (ort) |" in text
    now = row(commit="b" * 10, results={"cpu": {"ok": True}}).with_older(counted)
    assert now.arm == counts
    assert now.measured == {ARM: "a" * 10}


def test_a_row_of_code_that_changed_meanwhile_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.zoo.sweep.folder_of", lambda subject: tmp_path / subject.name)
    monkeypatch.setattr(Sweep, "_proved", lambda self, row, folder, targets: row)
    store = Store(tmp_path / "zoo.jsonl")
    sweep = Sweep(
        store=store,
        code=code_digest(),
        stale=False,
        targets=("cpu",),
        compiles=(),
        arm=False,
        ready=False,
        threads=(),
        engines=(),
        rounds=1,
        seconds=1,
        limit=1,
        keep=False,
        tell=lambda row, there: None,
    )
    sweep.one(Subject(kind="k", name="before"), again=False)
    with pytest.raises(CodeChanged, match="k/meanwhile"):
        replace(sweep, code="of before").one(Subject(kind="k", name="meanwhile"), again=False)
    assert set(store.rows) == {"k/before"}


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("users-of-nothing")
    yield made
    made.close()


def test_a_fork_leaves_its_result_or_says_how_it_died(nursery: Nursery, tmp_path: Path) -> None:
    limits = {"folder": tmp_path, "seconds": 60.0, "memory": 4 << 30}
    assert nursery.step("list", "users", **limits) == kind_of("users").names()
    died = nursery.step("bake", **limits)
    assert died["error"] == "Crash"
    assert "KeyError: 'bake'" in died["what"]
    assert nursery.step("list", "known", **limits) == kind_of("known").names()


def test_a_fork_that_takes_too_long_is_ended(nursery: Nursery, tmp_path: Path) -> None:
    found = nursery.step("list", "transformers", folder=tmp_path, seconds=0.0, memory=4 << 30)
    assert found["error"] == "Timeout"


def test_the_command_lists_what_it_would_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.zoo", "--list", "--name", "segformer"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "users/segformer_b0"


def test_tests_that_two_processes_unpack_at_once_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_nodes, "_FOLDER", tmp_path / "tests")
    others: list[Path] = []

    def unpack(folder: Path) -> None:
        (folder / "test_mine").mkdir(parents=True)
        if not others:
            others.append(folder)
            onnx_nodes.names()  # another process is sooner

    monkeypatch.setattr(onnx_nodes, "_unpack", unpack)
    assert onnx_nodes.names() == ["test_mine"]
    assert len(list((tmp_path / "tests").iterdir())) == 1


def test_peers_take_no_input_that_the_program_does_not(tmp_path: Path) -> None:
    file, program = tmp_path / "m.onnx", tmp_path / "m.mlirbc"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])
    axes = helper.make_tensor_value_info("axes", TensorProto.INT64, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["x", "axes"], ["y"])], "g", [axes, x], [y]
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), file)
    made = export_source(str(file), folder=tmp_path)
    made.save(program)
    call = Golden.load(Golden.path_for(program)).calls[0]
    names = [spec.name for spec in made.info.functions[0].signature.inputs]
    assert without_decided(file, names, call.inputs)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == names == ["x"]
    (answer,) = session.run(None, {"x": call.inputs[0]})
    np.testing.assert_array_equal(answer, call.outputs[0])
    assert not without_decided(file, names, call.inputs)
    with pytest.raises(ValueError, match="another"):
        onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), file)
        without_decided(file, names, [call.inputs[0] + 1])


def test_answers_that_a_generator_draws_are_not_settled(tmp_path: Path) -> None:
    x = np.arange(1, 41, dtype=np.float32)
    kind = TensorProto.FLOAT
    constants = [
        helper.make_tensor("ratio", kind, [], [0.5]),
        helper.make_tensor("training", TensorProto.BOOL, [], [True]),
    ]
    found = []
    for name, inputs in (("Dropout", ["x", "ratio", "training"]), ("Neg", ["x"])):
        graph = helper.make_graph(
            [helper.make_node(name, inputs, ["y"])],
            "test",
            [helper.make_tensor_value_info("x", kind, [40])],
            [helper.make_tensor_value_info("y", kind, [40])],
            constants,
        )
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
        found.append(unsettled(str(tmp_path / "m.onnx"), [x], [-x]))
    assert "other answers" in found[0]
    assert found[1] == ""


@pytest.mark.slow
def test_weights_of_a_language_model_are_chosen_by_what_the_library_writes() -> None:
    from benchmarks.zoo.kinds.telling import ENOUGH, telling, tokens_of
    from tests.exporters.language_models import model

    settings = {"eos_token_id": None}
    assert len(tokens_of(model("gemma2", **settings))) < 4  # each token is followed by itself
    chosen = telling(lambda: model("gemma2", **settings), spread=0.2)
    assert len(tokens_of(chosen)) >= ENOUGH
