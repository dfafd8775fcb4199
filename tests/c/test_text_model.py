"""Language models in C: the text that Python writes, token by token, on a tiny model."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgec.exporters.from_transformers.export import export_opened
from edgec.runtime.text import TextModel
from edgec.toolchain import CompileOptions, compile
from tests.c.conftest import SOURCE, run
from tests.exporters import language_models as tiny

HERE = Path(__file__).parent
SAMPLE = SOURCE.parents[1] / "samples" / "chat" / "c" / "chat.c"
QUESTION = "Zoë → 🙂? What is the capital of France?"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "model.vmfb"
    program = export_opened(tiny.model("llama"), tiny.tokenizer(), context=120, prefill=(8,))
    compile(program, "cpu", CompileOptions(output=path, level=1, check=False))
    return path


@pytest.fixture(scope="module")
def programs(build: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, and a program that attacks the library, with sanitizers."""
    folder, built = tmp_path_factory.mktemp("programs"), build("sanitize")
    for file in (SAMPLE, HERE / "text_model.c"):
        run(
            *("cc", "-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
            *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
            *(f"-I{SOURCE / 'include'}", file, built / "libedgert_text.a", built / "libedgert.a"),
            *("-lm", "-lpthread", "-o", folder / file.stem),
        )
    return folder


def _said(*words: Any, given: str = "") -> tuple[str, str]:
    done = subprocess.run(
        [str(word) for word in words], input=given.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def test_a_question_is_answered_as_python_answers_it(module: Path, programs: Path) -> None:
    with TextModel(module) as model:
        expected = model.chat(QUESTION, limit=30)
        text = expected.whole()
    found, stats = _said(programs / "chat", module, "--limit=30", QUESTION)
    assert found == f"{text}\n"
    assert f"prompt {expected.stats.prompt} tokens (0 known)" in stats
    assert f"{expected.stats.tokens} tokens, " in stats


def test_a_conversation_goes_on_and_is_read_once(module: Path, programs: Path) -> None:
    with TextModel(module) as model:
        messages: list[dict[str, str]] = []
        expected, reused = [], []
        for question in ("One?", "Two?"):
            messages.append({"role": "user", "content": question})
            answer = model.chat(messages, limit=6)
            expected.append(answer.whole())
            reused.append(answer.stats.reused)
            messages.append({"role": "assistant", "content": expected[-1]})
    found, stats = _said(programs / "chat", module, "--limit=6", given="One?\nTwo?\n")
    assert found == "".join(f"{text}\n" for text in expected)
    lines = stats.splitlines()
    assert all(f"({count} known)" in line for count, line in zip(reused, lines, strict=True))
    assert reused[1] > 0


def test_drawn_tokens_stops_limits_and_interrupts_are_as_they_should_be(
    module: Path, programs: Path
) -> None:
    """`text_model.c` says what it looks at; it prints what a seed draws."""
    from edgec.runtime.text import Sampling

    with TextModel(module) as model:
        sampling = Sampling(temperature=1.5, top_k=40, top_p=0.9, seed=3)
        expected = model.generate("Once", sampling=sampling, limit=12).whole()
    assert _said(programs / "text_model", module)[0] == expected
