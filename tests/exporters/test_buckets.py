"""An open length in buckets: which models go, how they are told of it, and that they are right."""

from typing import Any

import numpy as np
import pytest
import torch

from edgec import exporters, runtime, toolchain
from edgec.exporters.batches.buckets import usual_buckets
from edgec.runtime.errors import UsageError
from edgec.runtime.signature import Dim

_WIDTH, _WORDS = 64, 50


class _Sentence(torch.nn.Module):
    """Words and places, attention, and what they say on average."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(_WORDS, _WIDTH)
        self.places = torch.nn.Parameter(torch.randn(24, _WIDTH) / 4)
        self.layer = torch.nn.TransformerEncoderLayer(
            _WIDTH, 4, 4 * _WIDTH, batch_first=True, activation="gelu"
        )

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.words(ids) + self.places[: ids.shape[1]]
        x = self.layer(x, src_key_padding_mask=mask == 0)
        said = mask.unsqueeze(-1).float()
        return x, (x * said).sum(1) / said.sum(1), x[:, -1]


def _text(length: int) -> tuple[Any, Any]:
    ids = torch.from_numpy(np.random.default_rng(length).integers(0, _WORDS, (1, length)))
    mask = torch.ones(1, length, dtype=torch.long)
    mask[:, length - length // 3 :] = 0
    return ids, mask


def _dynamic(least: int = 1, most: int | str = 24) -> dict[str, Any]:
    return {name: {1: f"length={least}..{most}"} for name in ("ids", "mask")}


def test_each_length_gets_the_frameworks_answers(caplog: pytest.LogCaptureFixture) -> None:
    model = _Sentence().eval()
    program = exporters.export(model, _text(10), dynamic=_dynamic(), buckets=(8, 16))
    assert "is compiled for 8, 16, 24 of length" in caplog.text
    assert program.golden is not None
    sizes = [call.inputs[0].shape[1] for call in program.golden.calls]
    assert any(size < 8 for size in sizes)
    assert any(8 < size < 16 for size in sizes)
    assert any(16 < size < 24 for size in sizes)
    compiled = toolchain.compile_with_report(program, "cpu")
    weights = sum(p.numel() * 4 for p in model.parameters())
    assert compiled.module.path.stat().st_size < 1.6 * weights, "weights are there for each size"
    with runtime.load(compiled.module) as loaded:
        for length in (1, 2, 7, 8, 9, 16, 17, 23, 24):
            ids, mask = _text(length)
            wanted = model(ids, mask)
            found = loaded.main(ids.numpy(), mask.numpy())
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(one), other.detach(), atol=2e-5)


class _Rows(torch.nn.Module):
    """Attention over each text's own words; texts are looked up by their number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words = torch.nn.Embedding(_WORDS, _WIDTH)
        self.into = torch.nn.Linear(_WIDTH, 3 * _WIDTH)

    def forward(self, ids: Any, mask: Any) -> Any:
        texts, words = (torch.arange(size) for size in ids.shape)
        seen = mask.bool()[texts[:, None, None], words[None, None, :]]
        q, k, v = self.into(self.words(ids)).chunk(3, -1)
        scores = (q @ k.mT / 8).masked_fill(~seen, -torch.inf)
        return scores.softmax(-1) @ v


def test_a_batch_of_texts_of_any_length(caplog: pytest.LogCaptureFixture) -> None:
    model = _Rows().eval()

    def texts(count: int, length: int) -> tuple[Any, Any]:
        ids, mask = zip(*(_text(length) for _ in range(count)), strict=True)
        return torch.cat(ids), torch.cat(mask)

    dynamic = {n: {0: "texts=1..9", 1: "length=2..24"} for n in ("ids", "mask")}
    program = exporters.export(model, texts(3, 10), dynamic=dynamic)
    assert "16, 24 of length" in caplog.text
    assert "one of texts at a time" in caplog.text
    with runtime.load(toolchain.compile(program, "cpu")) as loaded:
        for count, length in ((1, 2), (3, 10), (9, 24), (2, 17), (4, 5)):
            ids, mask = texts(count, length)
            found = np.asarray(loaded.main(ids.numpy(), mask.numpy()))
            np.testing.assert_allclose(found, model(ids, mask).detach(), atol=2e-5)


class _Sound(torch.nn.Module):
    """Every fourth frame of a sound, what it says of itself, and as many frames as there were."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv1d(4, 8, 3, 2, 1)
        self.second = torch.nn.Conv1d(8, 8, 4, 2, 1)
        self.keys = torch.nn.Linear(8, 8)
        self.whole = torch.nn.ConvTranspose1d(8, 2, 4, 4)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.second(torch.nn.functional.max_pool1d(self.first(x), 3, 1, 1)))
        shares = torch.softmax(self.keys(y.mT) @ y / 3, -1)
        return self.whole((shares @ y.mT).mT), y.mean(-1)


def test_what_goes_in_steps_along_a_length() -> None:
    model = _Sound().eval()
    x = torch.randn(1, 4, 50, generator=torch.Generator().manual_seed(1))
    program = exporters.export(
        model, (x[:, :, :30],), dynamic={"x": {2: "frames=3..50"}}, buckets=(20,)
    )
    (function,) = program.info.functions
    assert [str(size) for size in function.signature.outputs[0].shape][2].startswith("4*")
    with runtime.load(toolchain.compile(program, "cpu")) as loaded:
        for frames in (3, 4, 5, 19, 20, 21, 48, 49, 50):
            wanted = model(x[:, :, :frames])
            for found, right in zip(loaded.main(x[:, :, :frames].numpy()), wanted, strict=True):
                np.testing.assert_allclose(np.asarray(found), right.detach(), atol=1e-5)


def test_a_batch_whose_examples_are_looked_up_by_number_goes_in_chunks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = tuple(torch.cat([each, each]) for each in _text(10))
    exporters.export(_Rows().eval(), text, dynamic="texts=1..9")
    assert "computes 8 of texts at a time" in caplog.text


class _Views(torch.nn.Module):
    """Views by strides and a size that is a number, for which PyTorch wants fixed sizes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.words = torch.nn.Embedding(_WORDS, 16)
        self.into = torch.nn.Linear(16, 16)

    def forward(self, ids: Any) -> Any:
        x = self.words(ids)
        texts, words = x.shape[0], int(x.shape[1])
        pairs = torch.as_strided(x.contiguous(), (texts, words, 8, 2), (words * 16, 16, 2, 1))
        y = pairs.sum(-1)
        seen = torch.softmax(self.into(x) @ x.mT / 4, -1) @ x
        return seen, torch.cat([y, y[:, :1]], 1), seen.mean(1)


@pytest.mark.sweep(fast=1)
@pytest.mark.parametrize("texts", ["", "texts=1..4"])
def test_what_has_no_form_with_an_open_length_goes_in_buckets_alone(
    texts: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = _Views().eval()
    dynamic = {"ids": {**({0: texts} if texts else {}), 1: "length=1..24"}}
    count = 2 if texts else 1
    ids = torch.arange(count * 7).reshape(count, 7)
    program = exporters.export(model, (ids,), dynamic=dynamic, buckets=(8, 16))
    assert "has no form with all of it open: the model fixes a dimension" in caplog.text
    assert "--buckets=0" not in caplog.text
    outputs = [spec.shape for spec in program.info.functions[0].signature.outputs]
    names = [[size.name for size in s if isinstance(size, Dim)] for s in outputs]
    many = ["texts"] if texts else []
    assert names == [[*many, "length"], [*many, "length+1"], many]
    assert program.golden is not None
    sizes = {call.inputs[0].shape[1] for call in program.golden.calls}
    assert {1, 9, 17} < sizes
    with runtime.load(toolchain.compile(program, "cpu")) as loaded:
        for number, length in (
            (1, 1),
            (count, 7),
            (1, 8),
            (count + 1 if texts else 1, 23),
            (1, 24),
        ):
            ids = torch.randint(0, _WORDS, (number, length))
            for found, wanted in zip(loaded.main(ids.numpy()), model(ids), strict=True):
                np.testing.assert_allclose(np.asarray(found), wanted.detach(), atol=1e-5)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dynamic": _dynamic(), "buckets": (8,), "chunk": 4}, "in chunks or in buckets"),
        ({"buckets": (8,)}, "no input has a dynamic dimension, and --buckets is for one"),
        ({"chunk": 4}, "no input has a dynamic dimension, and --chunk is for one"),
        ({"dynamic": _dynamic(), "buckets": (8,), "values": True}, "takes no --buckets"),
    ],
)
def test_what_would_be_for_nothing_is_refused(asked: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        exporters.export(_Rows().eval(), _text(10), **asked)


@pytest.mark.parametrize(
    ("dynamic", "buckets", "said"),
    [
        (_dynamic(most=""), None, "length has no largest size"),
        (_dynamic(most=9000), None, "length is up to 9000"),
        (_dynamic(), (0,), ""),
    ],
)
def test_a_length_that_stays_open(
    dynamic: Any, buckets: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Product(torch.nn.Module):
        def forward(self, ids: Any, mask: Any) -> Any:
            return (ids * mask).float().mT @ torch.ones(1, 4)

    program = exporters.export(Product(), _text(10), dynamic=dynamic, buckets=buckets)
    assert said in caplog.text
    assert "is compiled for" not in caplog.text
    assert program.golden is not None


def test_sizes_beyond_the_range_are_refused() -> None:
    with pytest.raises(UsageError, match="goes beyond"):
        exporters.export(_Sentence().eval(), _text(10), dynamic=_dynamic(), buckets=(8, 99))


def test_usual_sizes() -> None:
    def sizes(least: int, most: int) -> list[int]:
        return usual_buckets(Dim(name="n", minimum=least, maximum=most))

    assert sizes(1, 256) == [8, 16, 32, 64, 96, 128, 192, 256]
    assert sizes(100, 1000) == [128, 256, 512, 768, 1000]
    assert sizes(1, 5) == [5]
    for most in range(2, 4000, 37):
        found = sizes(1, most)
        assert len(found) <= 8
        assert found[-1] == most
        assert found == sorted(set(found))
