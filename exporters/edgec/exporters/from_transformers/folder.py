"""A folder of transformers to whether all is there: each file of weights whole, and a tokenizer.

transformers says what it misses in words of its own, and where a file is cut short in those of the
package that reads it. Here it is said with the file that is at fault, before anything is read.
"""

import json
from pathlib import Path

from edgec.runtime.errors import ModuleError, SourceError
from edgec.runtime.parameters import WeightsFile

__all__ = ["check_folder"]

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_INDEX = ".index.json"
_TOKENIZERS = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "source.spm", "tekken.json"),
)
_AGAIN = "copy or download it again"
_MOST = 3


def check_folder(path: Path) -> None:
    """Refuse a folder that lacks weights or a tokenizer, or has files of weights cut short.

    Raises:
        SourceError: it does.
    """
    if not any((path / name).exists() for name in _TOKENIZERS):
        raise SourceError(
            f"{path} holds no tokenizer (tokenizer.json and tokenizer_config.json)",
            hint="put it beside config.json: tokenizer.save_pretrained(FOLDER)",
        )
    found = [each for name in _WEIGHTS for each in (path / name, path / f"{name}{_INDEX}")]
    main = next((each for each in found if each.exists()), None)
    if main is None:
        raise SourceError(
            f"{path} holds no weights (model.safetensors, or {_WEIGHTS[0]}{_INDEX} and its parts)",
            hint="put them beside config.json: model.save_pretrained(FOLDER)",
        )
    files = _parts(main) if main.name.endswith(_INDEX) else [main]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        more = f" and {len(missing) - _MOST} more" if missing[_MOST:] else ""
        raise SourceError(
            f"{path} lacks {', '.join(missing[:_MOST])}{more}, which {main.name} names",
            hint="copy or download all parts of the weights into the folder",
        )
    for file in files:
        _check_whole(file)


def _parts(index: Path) -> list[Path]:
    """The files that an index names.

    Raises:
        SourceError: it is damaged.
    """
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return sorted({index.parent / Path(name).name for name in names})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"{index} does not say which files the weights are in: {error!r}", hint=_AGAIN
        ) from error


def _check_whole(file: Path) -> None:
    if file.suffix != ".safetensors":
        return  # a file of PyTorch's, whose end says what is in it: without it nothing is read
    try:
        WeightsFile.open(file)
    except ModuleError as error:
        raise SourceError(error.what, hint=_AGAIN) from error
