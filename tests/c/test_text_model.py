"""Language models in C: the text that Python writes, token by token, on a tiny model."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.runtime.text import Sampling, TextModel, WhenFull
from edgec.runtime.text.lookup import Lookup
from edgec.runtime.text.sliding import window
from tests.c import text_library
from tests.c.conftest import SOURCE, run
from tests.exporters import one_language_model

HERE = Path(__file__).parent
SAMPLE = SOURCE.parents[1] / "samples" / "chat" / "c" / "chat.c"
DIGITS = "0123456789"
QUESTION = "Zoë → 🙂? What is the capital of France?"


@pytest.fixture(scope="module")
def module() -> Path:
    return one_language_model.module("cpu")


@pytest.fixture(scope="module")
def programs(build: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, and a program that attacks the library, with sanitizers."""
    folder, built = tmp_path_factory.mktemp("programs"), build("vulkan")
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


def test_a_recurrent_model_writes_what_it_writes_in_python(programs: Path) -> None:
    module = one_language_model.recurrent("cpu")
    questions = ("One?", "Two, and more than a chunk of it?")
    with TextModel(module) as model:
        messages: list[dict[str, str]] = []
        expected, reused = [], []
        for question in questions:
            messages.append({"role": "user", "content": question})
            answer = model.chat(messages, limit=6)
            expected.append(answer.whole())
            reused.append(answer.stats.reused)
            messages.append({"role": "assistant", "content": expected[-1]})
    found, stats = _said(
        programs / "chat", module, "--limit=6", given="".join(f"{each}\n" for each in questions)
    )
    assert found == "".join(f"{text}\n" for text in expected)
    lines = stats.splitlines()
    assert all(f"({count} known)" in line for count, line in zip(reused, lines, strict=True))


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


def test_drawn_texts_those_that_slide_and_guesses_are_as_python_writes_them(
    module: Path, programs: Path, tmp_path: Path
) -> None:
    """`text_model.c` says what else it looks at; what was read goes there and comes back."""
    saved = tmp_path / "text.saved"
    with TextModel(module) as model:
        sampling = Sampling(temperature=1.5, top_k=40, top_p=0.9, seed=3)
        long, slide = [i * 7 % 250 for i in range(114)], WhenFull.SLIDE
        repeated = model.generate("abcabcabc", limit=60, speculate=False).whole()
        asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What?"}]
        expected = (
            model.generate("Once", sampling=sampling, limit=12).whole(),
            model.generate(long, limit=70, when_full=slide, keep=7).whole(),
            repeated,
            repeated,
            model.chat(asked, limit=90, when_full=slide).whole(),
            repeated,
        )
        assert model.tokenizer.encode(DIGITS, special=False) == list(range(15, 25))
        held = model.tokenizer.encode("Once", special=False)
        for _ in range(5):
            model.next_token(held)
            held.append(15 + int(model.module.state()["logits"][15:25].argmax()))
        best = model.tokenizer.decode(held[-5:])
        kept = model.generate("Once upon a time", limit=8)
        kept.whole()
        model.save(saved)
    one_language_model.save_as_another(tmp_path / "other.saved", "Once upon a time")
    found = _said(programs / "text_model", module, saved, tmp_path / "other.saved")[0]
    assert found == "\n".join((*expected, best, kept.text))
    with TextModel(module) as model:
        model.restore(saved)
        again = model.generate("Once upon a time", limit=8)
        assert (again.whole(), again.stats.reused) == (kept.text, 15)


def test_windows_and_guesses_are_those_of_python(tmp_path: Path) -> None:
    library = text_library.build(tmp_path)
    draw = np.random.default_rng(5)
    for count in (1, 2, 3, 9, 60, 200, 333):
        text = draw.integers(0, 4, count).astype(np.int32)
        given = text.ctypes.data_as(ctypes.c_void_p)
        for context, keep in ((2, 4), (60, 0), (60, 4), (60, 200), (9, 4)):
            room = np.zeros(context, np.int32)
            found = library.text_window(
                given, count, context, keep, room.ctypes.data_as(ctypes.c_void_p)
            )
            assert room[:found].tolist() == window(text.tolist(), context=context, keep=keep)
        lookup, place = Lookup(), ctypes.c_size_t()
        lookup.extend(text.tolist())
        found = library.text_guess(given, count, 3, ctypes.byref(place))
        assert text[place.value : place.value + found].tolist() == lookup.guess(3)
