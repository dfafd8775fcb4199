"""A language model's module reads prompts and writes what transformers writes."""

import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.exporters import export
from edgec.runtime.errors import InputError, ModuleError, UsageError
from edgec.runtime.text import Constraint, Finish, Sampling, TextFacts, TextModel, WhenFull, saved
from edgec.runtime.text.facts import packed
from edgec.runtime.text.lookup import Lookup
from edgec.runtime.text.sliding import window
from edgec.runtime.text.template import render
from edgec.runtime.text.tokenizer import Tokenizer
from edgec.toolchain import CompileOptions, compile
from tests.exporters import language_models as tiny
from tests.exporters import one_language_model
from tests.exporters.one_language_model import CONTEXT


@pytest.fixture(scope="module")
def network() -> Any:
    return one_language_model.network()


@pytest.fixture(scope="module")
def path() -> Path:
    return one_language_model.module("cpu")


@pytest.fixture
def model(path: Path) -> TextModel:
    return TextModel(path)


def _written(network: Any, prompt: list[int], count: int) -> list[int]:
    import torch

    given = torch.tensor([prompt])
    found = network.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=count, do_sample=False
    )
    return [int(token) for token in found[0]][len(prompt) :]


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 30])
def test_prompts_of_any_length_are_answered_as_transformers_does(
    model: TextModel, network: Any, length: int
) -> None:
    prompt = [int(n) for n in np.random.default_rng(length).integers(0, 250, length)]
    answer = model.generate(prompt, limit=12)
    text = answer.whole()
    assert answer.tokens == _written(network, prompt, 12)
    assert text == tiny.tokenizer().decode(answer.tokens, skip_special_tokens=True)
    assert answer.stats.tokens == len(answer.tokens)
    assert answer.stats.rate > 0


@pytest.mark.slow
@pytest.mark.vulkan
def test_a_gpu_writes_what_the_processor_writes(model: TextModel) -> None:
    path = one_language_model.module("vulkan")
    sampling = Sampling(temperature=1.5, top_k=40, seed=3)
    with TextModel(path) as other:
        for prompt, chosen in (("Zoë → 🙂?", Sampling()), ("Once upon", sampling)):
            expected = model.chat(prompt, limit=16, sampling=chosen)
            found = other.chat(prompt, limit=16, sampling=chosen)
            assert (found.whole(), found.tokens) == (expected.whole(), expected.tokens)


def test_a_conversation_that_goes_on_is_not_read_again(model: TextModel) -> None:
    messages = [{"role": "user", "content": "One?"}]
    first = model.chat(messages, limit=5)
    messages.append({"role": "assistant", "content": first.whole()})
    again = model.prompt_of([*messages, {"role": "user", "content": "Two?"}])
    known = len(model.known)
    second = model.generate(again, limit=4)
    second.whole()
    assert known > second.stats.reused > len(model.prompt_of(messages[:1])) - 2
    with TextModel(model.module.module.path) as fresh:
        other = fresh.generate(again, limit=4)
        other.whole()
    assert other.stats.reused == 0
    assert other.tokens == second.tokens


def test_a_recurrent_model_reads_full_chunks_and_takes_nothing_back(tmp_path: Path) -> None:
    """Falcon-H1, each of whose layers keeps states beside keys and values."""
    network = one_language_model.network("falcon_h1")
    with TextModel(one_language_model.recurrent("cpu")) as model:
        for length in (1, 7, 8, 9, 30):
            prompt = [int(n) for n in np.random.default_rng(length).integers(0, 250, length)]
            answer = model.generate(prompt, limit=12)
            answer.whole()
            assert answer.tokens == _written(network, prompt, 12)
            assert answer.stats.reused == 0
        # A text that goes on is not read again, one that was changed is read anew.
        going = [*prompt, *answer.tokens[:-1]]
        assert list(model.known) == going
        more = model.generate([*going, 65], limit=5)
        more.whole()
        assert (more.stats.reused, more.tokens) == (41, _written(network, [*going, 65], 5))
        other = model.generate([*going[:20], 66], limit=5)
        other.whole()
        assert (other.stats.reused, other.tokens) == (0, _written(network, [*going[:20], 66], 5))
        model.save(tmp_path / "text.saved")
        model.generate([1, 2, 3], limit=2).whole()
        model.restore(tmp_path / "text.saved")
        again = [*going[:20], 66, *other.tokens[:-1], 67]
        last = model.generate(again, limit=4)
        last.whole()
        assert (last.stats.reused, last.tokens) == (25, _written(network, again, 4))
        long = model.generate([65] * 118, limit=20, when_full=WhenFull.SLIDE)
        assert len(long.whole()) and len(long.tokens) == 20


def test_a_full_context_ends_an_answer_and_says_so(model: TextModel) -> None:
    answer = model.generate([65] * (CONTEXT - 3))
    answer.whole()
    assert answer.finish in (Finish.CONTEXT, Finish.STOP)
    if answer.finish is Finish.CONTEXT:
        assert len(model.known) == CONTEXT
    with pytest.raises(InputError, match=f"the context of .* holds {CONTEXT}"):
        model.generate([65] * (CONTEXT + 1))


def test_a_text_that_slides_keeps_its_beginning_and_its_end(model: TextModel, network: Any) -> None:
    """Each token is what transformers makes likeliest after the window."""
    prompt = [int(n) for n in np.random.default_rng(9).integers(0, 250, CONTEXT - 6)]
    answer = model.generate(prompt, limit=70, when_full=WhenFull.SLIDE, keep=7)
    answer.whole()
    assert len(answer.tokens) == 70  # else another prompt shows it
    assert len(model.known) <= CONTEXT
    assert list(model.known[:7]) == prompt[:7]
    text = list(prompt)
    for token in answer.tokens:
        read = window(text, context=CONTEXT, keep=7)
        assert _written(network, read, 1) == [token]
        text.append(token)


def test_a_prompt_that_is_too_long_slides_at_once(model: TextModel) -> None:
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a" * 300}]
    with pytest.raises(InputError, match="the context of"):
        model.chat(asked)
    model.chat(asked, limit=2, when_full=WhenFull.SLIDE).whole()
    start = model.tokenizer.encode("<|start|>system\nBe brief.", special=False)
    assert list(model.known[: len(start)]) == start


@pytest.mark.parametrize("keep", [0, 4, 200])
def test_a_window_fits_and_moves_by_halves(keep: int) -> None:
    kept, seen = min(keep, 50), set()
    for length in range(400):
        text = list(range(length))
        found = window(text, context=100, keep=keep)
        assert len(found) <= 100
        if length <= 100:
            assert found == text
            continue
        assert found[:kept] == text[:kept]
        assert found[kept:] == text[-(len(found) - kept) :]
        seen.add(found[kept])
    assert len(seen) < 16


def test_guesses_change_nothing_but_how_many_calls_it_takes(model: TextModel) -> None:
    prompt = model.tokenizer.encode("abcabcabc", special=False)
    plain = model.generate(prompt, limit=60, speculate=False)
    plain.whole()
    calls: list[int] = []
    verify = model._reader.verify

    def counted(token: int, guesses: Any) -> list[int]:
        found = verify(token, guesses)
        calls.append(len(found))
        return found

    model._reader.verify = counted  # type: ignore[method-assign]
    model.next_token([1])
    guessed = model.generate(prompt, limit=60)
    guessed.whole()
    assert guessed.tokens == plain.tokens
    assert calls
    # What was read by guesses is known as what was read one by one.
    assert model.known[: len(prompt)] == tuple(prompt)
    again = model.next_token([*prompt, *guessed.tokens[:20]])
    with TextModel(model.module.module.path) as other:
        assert other.next_token([*prompt, *guessed.tokens[:20]]) == again


def test_what_follows_the_same_words_is_looked_up() -> None:
    lookup = Lookup()
    lookup.extend([1, 2, 3, 4, 9, 2, 3])
    assert lookup.guess(3) == [4, 9, 2]
    assert lookup.guess(1) == [4]
    lookup.extend([5, 2, 3])
    assert lookup.guess(2) == [5, 2]  # where it stood last
    lookup.extend([6, 1, 2, 3])
    assert lookup.guess(1) == [4]  # three alike before two
    assert Lookup().guess(3) == []


def test_the_module_reads_no_guess_that_is_wrong(model: TextModel) -> None:
    prompt = [65, 66, 67, 68]
    best = model.next_token(prompt)
    second = model.next_token([*prompt, best])
    model.next_token(prompt)
    verify, count = model.module["verify_4"], np.int32(4)
    wrong = (second + 1) % 256
    found = verify(np.array([best, second, wrong, 0], np.int32), count)
    assert found[0] == second
    assert found[1] >= 0
    assert list(found[2:]) == [-1, -1]
    assert int(model.module.state()["position"]) == len(prompt) + 2
    # A number that is no count, and a context that is full.
    for given in (0, 5):
        chunk = np.zeros(4, np.int32)
        assert list(verify(chunk, np.int32(given))) == [-1] * 4
    model._reader.forget_from(0)
    model.next_token([65] * (CONTEXT - 3))
    assert list(verify(np.zeros(4, np.int32), count)) == [-1] * 4
    assert verify(np.zeros(4, np.int32), np.int32(3))[0] >= 0


def test_the_module_itself_refuses_a_token_too_many(model: TextModel) -> None:
    model.next_token([65] * CONTEXT)
    before = model.module.state()
    assert int(model.module["decode"](np.int32(1))) == -1
    after = model.module.state()
    assert int(after["position"]) == CONTEXT
    assert np.array_equal(after["logits"], before["logits"])
    assert np.array_equal(after["keys_0"][:, :, :CONTEXT], before["keys_0"][:, :, :CONTEXT])
    chunk = np.zeros(8, np.int32)
    assert int(model.module["prefill_8"](chunk, np.int32(9))) == -1
    assert int(model.module["prefill_8"](chunk, np.int32(0))) == -1


def test_prompts_that_make_no_sense_are_refused(model: TextModel) -> None:
    with pytest.raises(InputError, match="no tokens"):
        model.generate([])
    with pytest.raises(InputError, match="the token 300"):
        model.generate([1, 300])
    with pytest.raises(InputError, match="conversation: only two may talk"):
        render("{{ raise_exception('only two may talk') }}", [], {})


def test_a_seed_draws_one_text_and_another_another(model: TextModel) -> None:
    def drawn(seed: int) -> list[int]:
        answer = model.generate("Once", sampling=Sampling(temperature=1.5, seed=seed), limit=8)
        answer.whole()
        return answer.tokens

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(4)}) > 2


def test_a_penalty_keeps_a_text_from_repeating_itself(model: TextModel) -> None:
    prompt = model.tokenizer.encode("aaaa", special=False)
    best = model.next_token(prompt)
    scores = model.module.state()["logits"].astype(np.float64)
    model.next_token([*prompt, best])
    scores = model.module.state()["logits"].astype(np.float64)
    seen = np.unique([*prompt, best])
    scores[seen] = np.where(scores[seen] < 0, scores[seen] * 1e4, scores[seen] / 1e4)
    chosen = model.next_token([*prompt, best], Sampling(repetition_penalty=1e4))
    assert chosen == int(scores.argmax())


class _Everything:
    """Allows every token, or all but some."""

    def __init__(self, vocabulary: int, without: tuple[int, ...] = ()) -> None:
        marks = np.ones(-(-vocabulary // 32) * 32, np.uint8)
        marks[list(without)] = 0
        self._words = np.packbits(marks, bitorder="little").view("<i4")

    def allowed(self) -> np.ndarray:
        return self._words

    def add(self, token: int) -> None:
        assert self._words[token // 32] >> token % 32 & 1


class _Held(Constraint):
    """A constraint with a follower of the test's own."""

    def __init__(self, follower: Any) -> None:
        object.__setattr__(self, "_follower", follower)

    def follower(self, facts: TextFacts) -> Any:
        return self._follower


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=1.5, top_k=40, top_p=0.9, min_p=0.01, seed=3)]
)
def test_a_constraint_that_allows_everything_changes_nothing(
    model: TextModel, sampling: Sampling
) -> None:
    plain = model.generate("Once", sampling=sampling, limit=12)
    plain.whole()
    held = model.generate(
        "Once", sampling=sampling, limit=12, constraint=_Held(_Everything(tiny.VOCABULARY))
    )
    held.whole()
    assert held.tokens == plain.tokens


def test_the_module_takes_the_best_of_what_is_allowed(model: TextModel) -> None:
    prompt, without = model.tokenizer.encode("Once", special=False), set[int]()
    for _ in range(4):
        follower = _Everything(tiny.VOCABULARY, tuple(without))
        answer = model.generate(prompt, limit=1, constraint=_Held(follower))
        answer.whole()
        scores = model.module.state()["logits"].astype(np.float64)
        scores[list(without)] = -np.inf
        assert answer.tokens == [int(scores.argmax())]
        without.add(answer.tokens[0])
    without.update(range(40, 64))  # whole words and the highest bit
    drawn = set()
    for seed in range(40):
        answer = model.generate(
            prompt,
            limit=1,
            sampling=Sampling(temperature=50.0, top_k=290, seed=seed),
            constraint=_Held(_Everything(tiny.VOCABULARY, tuple(without))),
        )
        answer.whole()
        drawn.update(answer.tokens)
    assert not drawn & without
    assert len(drawn) > 20


def test_answers_are_what_a_schema_a_grammar_or_a_pattern_says(model: TextModel) -> None:
    pytest.importorskip("llguidance")
    schema = {
        "type": "object",
        "properties": {
            "city": {"enum": ["Paris", "Rome"]},
            "size": {"type": "integer", "minimum": 3, "maximum": 700},
            "old": {"type": "boolean"},
        },
        "required": ["city", "size", "old"],
        "additionalProperties": False,
    }
    made = set()
    for seed in range(3):
        for sampling in (Sampling(), Sampling(temperature=3.0, seed=seed)):
            answer = model.chat(
                "What?", sampling=sampling, constraint=Constraint.json_schema(schema)
            )
            said = json.loads(answer.whole())
            assert answer.finish is Finish.STOP
            assert list(said) == ["city", "size", "old"]
            assert said["city"] in ("Paris", "Rome")
            assert 3 <= said["size"] <= 700
            made.add(answer.text)
    assert len(made) > 2
    lark = Constraint.grammar('start: "a" start "b" | "c"')
    found = model.generate("Once", limit=40, constraint=lark).whole()
    assert found == "a" * found.count("a") + "c" + "b" * found.count("a")
    digits = model.generate("Once", constraint=Constraint.pattern("[0-9]{3}-[xyz]+!"))
    assert re.fullmatch("[0-9]{3}-[xyz]+!?", digits.whole())


def test_constraints_that_cannot_be_followed_are_refused(model: TextModel) -> None:
    pytest.importorskip("llguidance")
    with pytest.raises(InputError, match="JSON schema cannot be followed"):
        Constraint.json_schema("[1")
    with pytest.raises(InputError, match="no JSON object"):
        Constraint.json_schema("[1]")
    for wrong, said in (
        (Constraint.json_schema({"type": "strange"}), "strange"),
        (Constraint.json_schema({"not": {}}), "not"),
        (Constraint.grammar("nope"), "Expected"),
        (Constraint.pattern("[a"), "unclosed"),
    ):
        with pytest.raises(InputError, match=said):
            model.generate("Once", constraint=wrong)


def test_what_was_read_is_saved_and_known_again(
    model: TextModel, path: Path, tmp_path: Path
) -> None:
    prompt = model.tokenizer.encode("A long beginning of a text.", special=False)
    expected = model.generate(prompt, limit=6)
    expected.whole()
    model.save(tmp_path / "text.saved")
    with TextModel(path) as other:
        other.restore(tmp_path / "text.saved")
        again = other.generate(prompt, limit=6)
        again.whole()
    assert again.tokens == expected.tokens
    assert again.stats.reused == len(prompt) - 1


def test_what_is_no_saved_text_is_refused_and_changes_nothing(
    model: TextModel, tmp_path: Path
) -> None:
    model.generate("Once upon", limit=3).whole()
    known, file = model.known, tmp_path / "text.saved"
    model.save(file)
    data = file.read_bytes()
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    for wrong in (b"", b"PK nothing", data[:-1], data + b"0", data[:40], bytes(changed)):
        file.write_bytes(wrong)
        with pytest.raises(InputError, match="no saved text"):
            model.restore(file)
    assert model.known == known
    for at in (0, 36):  # another model, another number of states; with a checksum that fits
        body = bytearray(data[12:])
        body[at] ^= 1
        file.write_bytes(data[:8] + zlib.crc32(body).to_bytes(4, "little") + body)
        with pytest.raises(InputError, match="another model"):
            model.restore(file)


@pytest.mark.slow
def test_what_another_model_of_the_same_shapes_has_read_is_refused(
    model: TextModel, tmp_path: Path
) -> None:
    file = tmp_path / "text.saved"
    with TextModel(one_language_model.another()) as other:
        assert other.module.module.facts.states == model.module.module.facts.states
        other.generate("Once upon", limit=3).whole()
        other.save(file)
    model.generate("Once upon", limit=3).whole()
    known = model.known
    with pytest.raises(InputError, match="another model, or with other weights"):
        model.restore(file)
    assert model.known == known


def test_a_module_that_does_not_say_which_model_it_is_saves_nothing(
    model: TextModel, tmp_path: Path
) -> None:
    module = replace(model.module.module, identity="")  # as edgec compiled them once
    with pytest.raises(ModuleError, match="does not say which model it is"):
        saved.write(tmp_path / "text.saved", module, model.module.state(), [])
    assert not (tmp_path / "text.saved").exists()


def test_a_new_prompt_ends_the_answer_before_it(model: TextModel) -> None:
    first = model.generate("One", limit=30)
    next(first)
    model.generate("Two", limit=2).whole()
    first.whole()
    assert first.finish is Finish.BROKEN_OFF


def test_a_module_without_a_language_model_is_refused(tmp_path: Path) -> None:
    program = export(lambda x: x + 1, (np.ones(3, np.float32),))
    compile(program, "cpu", CompileOptions(output=tmp_path / "plain.vmfb", level=0, check=False))
    with pytest.raises(ModuleError, match="holds no language model"):
        TextModel(tmp_path / "plain.vmfb")


def test_a_text_that_is_no_utf_8_is_refused(model: TextModel) -> None:
    said = b"a\xff b".decode(errors="surrogateescape")  # as a command line gives it
    with pytest.raises(InputError, match="no UTF-8 at its character"):
        model.generate(said)
    with pytest.raises(InputError, match="no UTF-8"):
        model.chat(said)


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in ({"temperature": -1.0}, {"top_p": 0.0}, {"min_p": 2.0}, {"top_k": -1}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            Sampling(**wrong)  # type: ignore[arg-type]


def test_text_that_is_cut_inside_a_character_comes_whole() -> None:
    tokenizer = Tokenizer(tiny.tokenizer().backend_tokenizer.to_str())
    said = "Zoë → 🙂!"
    stream = tokenizer.stream()
    pieces = [stream.add(token) for token in tokenizer.encode(said, special=False)]
    assert "".join(pieces) + stream.rest() == said
    assert all("\ufffd" not in piece for piece in pieces)


def test_templates_are_rendered_as_transformers_does() -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content | tojson }}{% endgeneration %}{% continue %}{% endif %}\n"
        "    [{{ m.content | trim }}]\n"
        "{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    messages = [
        {"role": "user", "content": " <a> & é "},
        {"role": "assistant", "content": 'said "b"'},
    ]
    theirs = tiny.tokenizer()
    theirs.chat_template = template
    expected = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert render(template, messages, {"bos_token": "<|start|>"}) == expected


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    with pytest.raises(InputError, match="unsafe"):
        render("{{ messages.__class__.__mro__[1].__subclasses__() }}", [], {})


@pytest.mark.parametrize(
    ("left", "padded", "full"),
    [
        *((1, 1, 1), (2, 8, 1), (8, 8, 8), (20, 8, 8), (33, 64, 8), (128, 64, 64)),
        *((129, 256, 64), (256, 256, 256), (1000, 256, 256)),
    ],
)
def test_a_chunk_is_more_than_half_full(left: int, padded: int, full: int) -> None:
    facts = TextFacts(
        context=2048, prefill=(8, 64, 256), vocabulary=3, stop=(2,), packed=packed("{}")
    )
    assert facts.chunk(left) == padded
    assert replace(facts, recurrent=True).chunk(left) == full
    assert replace(facts, prefill=()).chunk(left) == 1


def test_damaged_facts_are_refused() -> None:
    facts = TextFacts(context=8, prefill=(4,), vocabulary=3, stop=(2,), packed=packed("{}" * 100))
    value = facts.to_json()
    assert TextFacts.from_json(value) == facts
    assert facts.tokenizer == "{}" * 100
    for wrong in (
        {**value, "schema": 9},
        {**value, "tokenizer": value["tokenizer"][:-8]},
        {**value, "tokenizer": "?"},
        {key: value[key] for key in value if key != "stop"},
    ):
        with pytest.raises(ModuleError):
            _ = TextFacts.from_json(wrong).tokenizer
    with pytest.raises(ModuleError):
        TextFacts.parse("[")
