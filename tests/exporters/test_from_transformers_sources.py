"""Models with an encoder, T5 and Whisper: what they write of a source, the module writes, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgec.exporters import export_source
from edgec.exporters.from_transformers.stepping import stepping
from edgec.runtime.errors import InputError
from edgec.runtime.text import TextModel
from edgec.toolchain import CompileOptions, compile
from tests.exporters import language_models as tiny

CONTEXT = 40


def _compiled(kind: str, folder: Path) -> Path:
    tiny.with_encoder(kind).save_pretrained(folder / kind)
    tiny.tokenizer().save_pretrained(folder / kind)
    program = export_source(f"hf:{folder / kind}", context=CONTEXT, prefill=(8,))
    module = compile(program, "cpu", CompileOptions(output=folder / f"{kind}.vmfb", level=1))
    assert module.facts.check.startswith("checked")
    return module.path


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.slow) for kind in ("t5", "whisper")],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    kind = str(request.param)
    return kind, tiny.with_encoder(kind), _compiled(kind, tmp_path_factory.mktemp(kind))


def _expected(network: Any, start: list[int], count: int, **given: Any) -> list[int]:
    """Greedy tokens, the whole text anew for each."""
    text = list(start)
    for _ in range(count):
        with torch.no_grad():
            scores = network(**given, decoder_input_ids=torch.tensor([text])).logits[0, -1]
        text.append(int(scores.argmax()))
        if text[-1] == 257:
            break
    return text[len(start) :]


def test_a_source_is_read_once_and_answered_token_by_token(case: Any) -> None:
    kind, network, path = case
    draw = np.random.default_rng(3)
    made = set()
    with TextModel(path) as model:
        for size in (5, CONTEXT):
            if kind == "t5":
                source = draw.integers(1, 250, size)
                given = {"input_ids": torch.tensor(source[None])}
            else:
                source = draw.standard_normal((16, 60)).astype(np.float32)
                given = {"input_features": torch.from_numpy(source[None])}
            for start in ((), [5, 6, 7, 8, 9]):
                answer = model.generate(source, limit=6, start=start)
                answer.whole()
                first = start or model.facts.start
                assert answer.tokens == _expected(network, list(first), 6, **given)
                made.update(answer.tokens)
    assert len(made) > 2


@pytest.mark.parametrize("kind", ["t5", "whisper"])
def test_chunks_and_single_tokens_give_what_transformers_gives(kind: str) -> None:
    network = tiny.with_encoder(kind)
    entries = stepping(network, context=CONTEXT, prefill=(8,)).entries
    call = {entry.name: entry.function for entry in entries}
    draw = torch.Generator().manual_seed(2)
    one = torch.ones((), dtype=torch.int32)
    with torch.no_grad():
        if kind == "t5":
            source = torch.randint(1, 250, (1, 11), generator=draw)
            padded = torch.nn.functional.pad(source[0], (0, CONTEXT - 11)).to(torch.int32)
            assert int(call["encode"](padded, one * 11)) == 11
            assert int(call["encode"](padded, one * (CONTEXT + 1))) == -1
            given = {"input_ids": source}
        else:
            sound = torch.randn(1, 16, 60, generator=draw)
            assert int(call["encode"](sound[0])) == 30
            given = {"input_features": sound}
        text = torch.randint(1, 250, (9,), generator=draw).to(torch.int32)
        found = [int(call["prefill_8"](torch.nn.functional.pad(text[:3], (0, 5)), one * 3))]
        found += [int(call["decode"](token)) for token in text[3:]]
        scores = network(**given, decoder_input_ids=text[None].long()).logits[0]
    assert found == scores[2:].argmax(-1).tolist()
    assert len(set(found)) > 2


def test_sources_that_do_not_fit_are_refused(case: Any) -> None:
    kind, _, path = case
    with TextModel(path) as model:
        if kind == "t5":
            with pytest.raises(InputError, match="reads up to 40"):
                model.generate("a" * 41)
            with pytest.raises(InputError, match="the token 300"):
                model.generate([300])
        else:
            with pytest.raises(InputError, match="16 x 60"):
                model.generate(np.zeros((16, 61), np.float32))
            with pytest.raises(InputError, match="reads features of sound"):
                model.generate("a text")
