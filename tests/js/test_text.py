"""Language models in JavaScript: the text that Python writes, of a tiny model in node."""

import shutil
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from edgec.runtime.text import Constraint, Sampling, TextModel, WhenFull
from edgec.runtime.text.facts import TextFacts
from edgec.toolchain import CompileOptions, compile
from tests.exporters import one_language_model
from tests.js.node import need_node, run_node, write_runtime_once

QUESTION = "Zoë → 🙂? What is the capital of France?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runtime, and a language model for WebAssembly and for this machine."""
    need_node()
    folder = tmp_path_factory.mktemp("text")
    write_runtime_once(folder / "edgec-runtime", text=True)
    for target in ("wasm", "cpu"):
        shutil.copy(one_language_model.module(target), folder / f"{target}.vmfb")
    return folder


SCRIPT = """
const { loadText } = await import('./edgec-runtime/text.js');
const model = await loadText('wasm.vmfb', { worker, threads: 1 });
const pieces = [];
const first = model.chat(question, { limit: 10 });
for await (const piece of first) pieces.push(piece);
const messages = [{ role: 'user', content: question }, { role: 'assistant', content: first.text },
  { role: 'user', content: 'And?' }];
const second = model.chat(messages, { limit: 5 });
await second.whole();
const sampling = { temperature: 1.5, topK: 40, topP: 0.9, seed: 3 };
const drawn = await model.generate('Once', { ...sampling, limit: 12 }).whole();
const broken = model.generate('Once', { limit: 30 });
await broken.next();
await model.generate('Two', { limit: 2 }).whole();
await broken.whole();
const full = model.generate(Array(118).fill(65));
await full.whole();
const long = Array.from({ length: 114 }, (_, i) => (i * 7) % 250);
const slid = model.generate(long, { limit: 40, whenFull: 'slide', keep: 7 });
await slid.whole();
const calls = { verify_4: 0, decode: 0 };
const call = model.model.call.bind(model.model);
model.model.call = (name, ...given) => {
  calls[name] = (calls[name] ?? 0) + 1;
  return call(name, ...given);
};
const guessed = model.generate('abcabcabc', { limit: 60 });
await guessed.whole();
const tried = { ...calls };
const plain = model.generate('abcabcabc', { limit: 60, speculate: false });
await plain.whole();
delete model.model.call;
const told = model.chat([{ role: 'system', content: 'Brief.' },
  { role: 'user', content: 'a'.repeat(300) }], { limit: 3, whenFull: 'slide' });
await told.whole();
const guesses = [tried.verify_4, calls.verify_4];
print({ guessed: guessed.tokens, plain: plain.tokens, guesses, told: told.tokens,
  slid: [slid.tokens, slid.stats.reused],
  pieces, text: first.text, finish: first.finish, tokens: first.tokens, second: second.text,
  stats: [first.stats, second.stats], drawn, broken: broken.finish,
  full: [full.finish, full.tokens.length],
  decoded: model.tokenizer.decode(first.tokens),
  chunks: Array.from({ length: 40 }, (_, left) => model.tokenizer.chunk(left + 1)),
  failures: [await failure((async () => model.generate(''))()),
    await failure((async () => model.generate('a'.repeat(200)))()),
    await failure((async () => model.generate('a', { warmth: 2 }).whole())()),
    await failure((async () => model.generate('a', { whenFull: 'burst' }))()),
    await failure((async () => model.chat([{ role: 'judge', content: '' }]))())] });
model.close();
"""


RECURRENT = """
const { loadText } = await import('./edgec-runtime/text.js');
const model = await loadText('recurrent.vmfb', { threads: 1 });
const found = [];
for (const text of texts) {
  const answer = model.generate(text, { limit: 6 });
  found.push([await answer.whole(), answer.stats.reused]);
}
print(found);
model.close();
"""


@pytest.mark.slow
def test_a_recurrent_model_writes_in_node_what_it_writes_in_python(folder: Path) -> None:
    shutil.copy(one_language_model.recurrent("wasm"), folder / "recurrent.vmfb")
    expected, texts = [], [list(range(20, 43)), [20, 21], list(range(40, 70))]
    with TextModel(one_language_model.recurrent("cpu")) as model:
        for number, text in enumerate(texts):
            answer = model.generate(text, limit=6)
            expected.append([answer.whole(), answer.stats.reused])
            if number == 0:
                texts.insert(1, [*model.known, 65])
    assert run_node(RECURRENT, folder, texts=texts) == expected
    assert [reused for _, reused in expected] == [0, 28, 0, 0]


SAVING = """
const { loadText } = await import('./edgec-runtime/text.js');
const { readFile, writeFile } = await import('node:fs/promises');
const model = await loadText('wasm.vmfb', { worker, threads: 1 });
const ask = async () => {
  const answer = model.generate(text, { limit: 8 });
  return [await answer.whole(), answer.stats.reused];
};
await model.restore(new Uint8Array(await readFile(file)));
const first = await ask();
const bytes = await model.save();
await model.generate('Another', { limit: 3 }).whole();
await model.restore(bytes);
const second = await ask();
const failures = [];
for (const size of [0, 11, 12, 40, bytes.length - 1])
  failures.push(await failure(model.restore(bytes.slice(0, size))));
bytes[bytes.length >> 1] ^= 1;
failures.push(await failure(model.restore(bytes)));
bytes[bytes.length >> 1] ^= 1;
const another = await failure(model.restore(new Uint8Array(await readFile(other))));
const [, still] = await ask();
await writeFile(file, bytes);
print({ first, second, failures, another, still });
model.close();
"""


@pytest.mark.parametrize("worker", [False, True])
def test_what_python_has_read_is_known_in_node_and_back(
    folder: Path, tmp_path: Path, worker: bool
) -> None:
    saved, text = tmp_path / "text.saved", "Once upon a time"
    other = tmp_path / "other.saved"
    one_language_model.save_as_another(other, text)
    with TextModel(folder / "cpu.vmfb") as model:
        expected = model.generate(text, limit=8).whole()
        model.save(saved)
        files = {"file": str(saved), "other": str(other)}
        found = run_node(SAVING, folder, worker=worker, text=text, **files)
        model.generate("Another", limit=3).whole()
        model.restore(saved)
        again = model.generate(text, limit=8)
        assert (again.whole(), again.stats.reused) == (expected, len(text) - 1)
    assert found["first"] == found["second"] == [expected, len(text) - 1]
    assert found["still"] == len(text) - 1
    for code, message in found["failures"]:
        assert code == "INVALID_ARGUMENT"
        assert "damaged" in message
    assert found["another"][0] == "INVALID_ARGUMENT"
    assert "another model" in found["another"][1]


@pytest.mark.parametrize("worker", [False, True])
def test_a_model_writes_in_node_what_it_writes_in_python(folder: Path, worker: bool) -> None:
    found = run_node(SCRIPT, folder, question=QUESTION, worker=worker)
    with TextModel(folder / "cpu.vmfb") as model:
        first = model.chat(QUESTION, limit=10)
        assert found["text"] == first.whole() == "".join(found["pieces"])
        assert found["tokens"] == first.tokens
        assert found["finish"] == first.finish.value
        assert found["decoded"] == first.text
        assert found["chunks"] == [model.facts.chunk(left) for left in range(1, 41)]
        messages = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": first.text},
            {"role": "user", "content": "And?"},
        ]
        second = model.chat(messages, limit=5)
        assert found["second"] == second.whole()
        for stats, answer in zip(found["stats"], (first, second), strict=True):
            assert stats["prompt"] == answer.stats.prompt
            assert stats["reused"] == answer.stats.reused
            assert stats["tokens"] == answer.stats.tokens
        sampling = Sampling(temperature=1.5, top_k=40, top_p=0.9, seed=3)
        assert found["drawn"] == model.generate("Once", sampling=sampling, limit=12).whole()
        full = model.generate([65] * 118)
        full.whole()
        assert found["full"] == [full.finish.value, len(full.tokens)]
        long = [i * 7 % 250 for i in range(114)]
        slid = model.generate(long, limit=40, when_full=WhenFull.SLIDE, keep=7)
        slid.whole()
        assert found["slid"] == [slid.tokens, slid.stats.reused]
        asked = [{"role": "system", "content": "Brief."}, {"role": "user", "content": "a" * 300}]
        told = model.chat(asked, limit=3, when_full=WhenFull.SLIDE)
        told.whole()
        assert found["told"] == told.tokens
        plain = model.generate("abcabcabc", limit=60, speculate=False)
        plain.whole()
        assert found["guessed"] == found["plain"] == plain.tokens
        with_guesses, after = found["guesses"]
        assert 0 < with_guesses == after
    assert found["broken"] == "broken off"
    said = [
        "no tokens",
        "the context holds 120",
        "no option warmth",
        "whenFull is",
        "message 0 is of a role",
    ]
    for (code, message), expected in zip(found["failures"], said, strict=True):
        assert code == "INVALID_ARGUMENT"
        assert expected in message


HELD = """
const { loadText } = await import('./edgec-runtime/text.js');
const model = await loadText('wasm.vmfb', { worker, threads: 1 });
const everything = async (last, mask) => { mask.fill(0xFFFFFFFF); };
const free = model.generate('abcabcabc', { limit: 30, allow: everything });
await free.whole();
const digits = [...'0123456789'].map((digit) => model.tokenizer.encode(digit)[0]);
const lasts = [];
const fiveDigits = (last, mask) => {
  lasts.push(last ?? null);
  for (const digit of digits) mask[digit >> 5] |= 1 << (digit & 31);
  return lasts.length <= 5;
};
const five = model.generate('abc', { limit: 60, allow: fiveDigits });
await five.whole();
const drawn = model.generate('abc', { limit: 9, temperature: 1.5, seed: 4,
  allow: (_, mask) => fiveDigits(_, mask) || true });
await drawn.whole();
const none = model.generate('abc', { allow: () => false });
await none.whole();
delete model.model.functions.sample_allowed;
print({ free: free.tokens, five: [five.tokens, five.finish], lasts: lasts.slice(0, 6), digits,
  drawn: drawn.tokens, none: [none.tokens, none.finish],
  failure: await failure((async () => model.generate('a', { allow: everything }).whole())()) });
model.close();
"""


class Digits:
    """Five digits, as a constraint follows them in Python."""

    def __init__(self, digits: list[int], count: int) -> None:
        self.digits, self.left = digits, count

    def follower(self, facts: TextFacts) -> "Digits":
        self.words = np.zeros(-(-facts.vocabulary // 32), np.uint32)
        for digit in self.digits:
            self.words[digit // 32] |= np.uint32(1 << digit % 32)
        return self

    def allowed(self) -> np.ndarray | None:
        return self.words.view(np.int32) if self.left else None

    def add(self, token: int) -> None:
        assert token in self.digits
        self.left -= 1


@pytest.mark.parametrize("worker", [False, True])
def test_an_answer_is_held_to_what_a_function_allows(folder: Path, worker: bool) -> None:
    found = run_node(HELD, folder, worker=worker)
    digits = found["digits"]
    with TextModel(folder / "cpu.vmfb") as model:
        free = model.generate("abcabcabc", limit=30)
        free.whole()
        assert found["free"] == free.tokens
        five = model.generate("abc", constraint=cast(Constraint, Digits(digits, 5)))
        five.whole()
        assert found["five"] == [five.tokens, "stop"] == [five.tokens, five.finish.value]
        assert found["lasts"] == [None, *five.tokens]
        drawn = model.generate(
            "abc",
            sampling=Sampling(temperature=1.5, seed=4),
            constraint=cast(Constraint, Digits(digits, 99)),
            limit=9,
        )
        drawn.whole()
        assert found["drawn"] == drawn.tokens
    assert len(set(found["drawn"])) > 1
    assert found["none"] == [[], "stop"]
    assert found["failure"][0] == "UNSUPPORTED"


def test_a_module_without_a_language_model_is_refused(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "plain.mlir"
    program.write_text(
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "  %y = stablehlo.add %x, %x : tensor<f32>\n  return %y : tensor<f32>\n}\n"
    )
    compile(program, "wasm", CompileOptions(output=folder / "plain.vmfb", level=0, check=False))
    script = """
    const { loadText } = await import('./edgec-runtime/text.js');
    print(await failure(loadText('plain.vmfb')));
    """
    code, message = run_node(script, folder)
    assert (code, message) == ("NOT_FOUND", "the module holds no language model")
