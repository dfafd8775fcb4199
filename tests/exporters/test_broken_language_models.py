"""Folders of transformers that lack something or are damaged: each is told by what is at fault."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from edgec.exporters import export_source
from edgec.exporters.from_transformers.opening import open_model
from edgec.runtime.errors import EdgecError, SourceError
from tests.exporters import language_models as tiny

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
LOST = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.save("llama", tmp_path / "net")


def _in_parts(folder: Path) -> list[Path]:
    (folder / WEIGHTS).unlink()
    tiny.model("llama").save_pretrained(folder, max_shard_size="100KB")
    return sorted(folder.glob("model-*.safetensors"))


def _cut(file: Path, part: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])


def _without_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


def _with_parts_missing(folder: Path) -> None:
    for file in _in_parts(folder)[1:]:
        file.unlink()


def _with_a_part_cut_short(folder: Path) -> None:
    _cut(_in_parts(folder)[1], 0.5)


def _with_an_index_cut_short(folder: Path) -> None:
    _in_parts(folder)
    _cut(folder / INDEX, 0.5)


def _with_an_index_of_something_else(folder: Path) -> None:
    _in_parts(folder)
    (folder / INDEX).write_text(json.dumps({"weight_map": [1, 2]}))


def _without_a_weight(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights[LOST]
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def _with_a_weight_of_another_shape(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights[LOST] = weights[LOST][:50].contiguous()
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def _with_a_tokenizer_that_is_no_utf8(folder: Path) -> None:
    data = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(data.replace(b'"a"', b'"\xff"'))


def _with_a_config_that_is_no_utf8(folder: Path) -> None:
    (folder / "config.json").write_bytes(b'{"model_type": "lla\xff"}')


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without_tokenizer, r"holds no tokenizer \(tokenizer\.json"),
        (lambda folder: (folder / WEIGHTS).unlink(), r"holds no weights \(model\.safetensors"),
        (
            lambda folder: _cut(folder / WEIGHTS, 0.5),
            r"model\.safetensors is cut short: .* outside",
        ),
        (lambda folder: _cut(folder / WEIGHTS, 0), r"model\.safetensors is cut short"),
        (
            _with_parts_missing,
            r"lacks model-00002-of.*, which model\.safetensors\.index\.json names",
        ),
        (_with_a_part_cut_short, r"model-00002-of-\d+\.safetensors is cut short"),
        (_with_an_index_cut_short, r"index\.json does not say which files"),
        (_with_an_index_of_something_else, r"index\.json does not say which files"),
        (_without_a_weight, rf"holds no weights for {LOST}"),
        (_with_a_weight_of_another_shape, "cannot be read as a language model"),
        (_with_a_tokenizer_that_is_no_utf8, "the tokenizer of .* cannot be read"),
        (_with_a_config_that_is_no_utf8, r"config\.json does not say what kind"),
    ],
)
def test_what_is_at_fault_is_told(
    folder: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder)
    with pytest.raises(SourceError, match=said):
        open_model(f"hf:{folder}")


def test_whole_folders_are_read_in_one_file_and_in_parts(folder: Path) -> None:
    one = open_model(f"hf:{folder}").model.state_dict()
    assert len(_in_parts(folder)) > 2
    other = open_model(f"hf:{folder}").model.state_dict()
    assert all(one[name].equal(other[name]) for name in one)


@pytest.mark.slow
def test_a_chat_template_that_cannot_be_read_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m")
    weights = tmp_path / "net.weights.safetensors"
    with pytest.raises(EdgecError, match="chat template"):
        export_source(f"hf:{folder}", context=32, prefill=(4,), external_weights=weights)
    assert not weights.exists()
