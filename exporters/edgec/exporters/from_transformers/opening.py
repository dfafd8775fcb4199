"""A transformers folder or a GGUF file to a model and its tokenizer, both as transformers has them.

A GGUF file is read by transformers, too, which makes floats of its blocks; `gguf_blocks.py` finds
the blocks again.
"""

import contextlib
import functools
import io
import json
import logging
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgec.exporters.extras import need
from edgec.exporters.failures import reason_of
from edgec.exporters.from_transformers.folder import check_folder
from edgec.exporters.from_transformers.gguf_blocks import blocks_of
from edgec.exporters.from_transformers.gguf_positions import set_positions
from edgec.runtime.errors import FileError, SourceError, UnsupportedOp, UsageError
from edgec.toolchain.blocked_weights import BlockedWeights

__all__ = ["FOLDER", "Opened", "is_language_model", "open_model", "silent"]

FOLDER = "hf:"
"""What a user writes before a folder of transformers."""

_GGUF = ".gguf"
_KINDS = "GGMLQuantizationType"
"""What `gguf` says of the number of a kind that it has not."""
_WHY = "reading a language model"


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A language model as transformers has it.

    Attributes:
        model: a `PreTrainedModel` that gives scores of the next token, in f32, in eval mode.
        tokenizer: its `PreTrainedTokenizerFast`.
        tensors: what the GGUF file calls each weight, by the model's own name for it.
        blocks: the weights that the file has as integers in blocks, by the same names.
    """

    model: Any
    tokenizer: Any
    tensors: Mapping[str, str] = field(default_factory=dict)
    blocks: Mapping[str, BlockedWeights] = field(default_factory=dict)


def is_language_model(text: str) -> bool:
    """Whether a source on the command line is a folder of transformers or a GGUF file."""
    return text.startswith(FOLDER) or Path(text).suffix == _GGUF


def open_model(text: str, *, floats: bool = False) -> Opened:
    """Open `hf:FOLDER` or `FILE.gguf`.

    Args:
        text: which.
        floats: leave the blocks of a GGUF file alone: all weights are f32.

    Raises:
        UsageError: a folder has no blocks.
        FileError: there is no such folder or file.
        SourceError: it is damaged, holds no language model, or lacks its tokenizer.
        UnsupportedOp: transformers does not know the architecture.
        MissingExtra: a package is not installed.
    """
    for package in ("torch", "transformers"):
        need(package, extra="torch,text", why=_WHY)
    path = Path(text.removeprefix(FOLDER))
    if path.suffix == _GGUF and not text.startswith(FOLDER):
        return _gguf(path, floats)
    if floats:
        raise UsageError(f"{path} has no blocks to make floats of", hint="leave out --floats")
    return _folder(path)


def _folder(path: Path) -> Opened:
    if not path.is_dir():
        raise FileError(
            f"cannot read {path}: no such folder",
            hint="give the folder that holds config.json; models are not downloaded",
        )
    if not (path / "config.json").exists():
        raise SourceError(
            f"{path} holds no config.json, so it is no folder of transformers",
            hint="write one with model.save_pretrained(FOLDER) and "
            "tokenizer.save_pretrained(FOLDER)",
        )
    _check_architecture(path)
    check_folder(path)
    return _opened(path, str(path), {})


def _check_architecture(path: Path) -> None:
    """Refuse what transformers has no code for, which it says at length, and other kinds."""
    from transformers import CONFIG_MAPPING

    try:
        kind = json.loads((path / "config.json").read_text())["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{path / 'config.json'} does not say what kind of model it is: {error!r}",
            hint="write it with model.save_pretrained(FOLDER)",
        ) from error
    if kind not in CONFIG_MAPPING:
        raise _unknown(path, str(kind))


def _unknown(path: Path, kind: str) -> UnsupportedOp:
    from transformers import __version__

    return UnsupportedOp(
        f"{path} is of the architecture {kind}, which transformers {__version__} does not know",
        hint="use a newer transformers, or export the model's own code: FILE.py:NAME",
    )


def _gguf(path: Path, floats: bool) -> Opened:
    for package in ("gguf", "accelerate"):
        need(package, extra="torch,text", why="reading a GGUF file")
    if not path.is_file():
        raise FileError(f"cannot read {path}: no such file", hint="check the path")
    with _read_once():
        reader = _checked(path)
        opened = _opened(path.parent, str(path), {"gguf_file": path.name})
        tensors = _tensor_names(opened.model)
    set_positions(path, reader, opened.model)
    return Opened(
        model=opened.model,
        tokenizer=opened.tokenizer,
        tensors=tensors,
        blocks={} if floats else blocks_of(reader, opened.model, tensors),
    )


@contextlib.contextmanager
def _read_once() -> Iterator[None]:
    """Let all who ask for a GGUF file's reader have one, and for an architecture's names one table.

    transformers makes three readers of a file, and to read 150,000 words takes as long as a small
    model's weights; and it makes a table of names for each part of a model, down to the smallest.
    """
    import gguf

    own = (gguf.GGUFReader, gguf.get_tensor_name_map)
    reader, gguf.get_tensor_name_map = (functools.cache(each) for each in own)
    gguf.GGUFReader = lambda path, *rest: reader(str(path), *rest)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = own


def _checked(path: Path) -> Any:
    """A file's reader; refuses tensors that lie outside of it, and what the packages do not know.

    `gguf` reads what it is told to, as far as there are bytes.
    """
    from gguf import GGUFReader
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES, read_field

    try:
        reader = GGUFReader(path)
        architecture = str(read_field(reader, "general.architecture")[0])
        end = max((int(t.data_offset) + int(t.n_bytes) for t in reader.tensors), default=0)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        if _KINDS in str(error):
            raise _unknown_kind(path, str(error)) from error
        raise SourceError(
            f"{path} cannot be read as a GGUF file: it is damaged or cut short "
            f"({reason_of(error)})",
            hint="copy or download it again",
        ) from error
    if not end or end > path.stat().st_size:
        raise SourceError(
            f"{path} is cut short: it has {path.stat().st_size} bytes and its tensors need {end}",
            hint="copy or download it again",
        )
    # As the file spells them, and as transformers does.
    known = {name.replace("_", "").replace("-", "") for name in GGUF_SUPPORTED_ARCHITECTURES}
    if architecture.replace("_", "").replace("-", "") not in known:
        raise _unknown(path, architecture)
    return reader


def _unknown_kind(path: Path, words: str) -> UnsupportedOp:
    """A tensor in blocks of a kind that `gguf` has no name for."""
    from importlib.metadata import version

    number = re.findall(r"\d+", words.split(" is not")[0])[-1]  # it may stand in numpy's words
    return UnsupportedOp(
        f"{path} has weights of the kind {number}, which gguf {version('gguf')} does not know",
        hint="a newer gguf may: pip install --upgrade gguf; or take a file of another quantisation",
    )


def _opened(folder: Path, name: str, where: Mapping[str, Any]) -> Opened:
    import torch
    from transformers import AutoTokenizer

    with silent():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **where)
        except Exception as error:  # transformers raises errors of every kind
            raise SourceError(
                f"the tokenizer of {name} cannot be read: {reason_of(error)}",
                hint="put tokenizer.json and tokenizer_config.json beside config.json: "
                "tokenizer.save_pretrained(FOLDER)",
            ) from error
        try:
            model, loading = _kind(folder, where).from_pretrained(
                folder,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
                **where,
            )
        except Exception as error:  # likewise
            raise SourceError(
                f"{name} cannot be read as a language model: {reason_of(error)}",
                hint="give a model that transformers' AutoModelForCausalLM, "
                "AutoModelForSeq2SeqLM or AutoModelForSpeechSeq2Seq opens",
            ) from error
    if not getattr(tokenizer, "is_fast", False):
        raise SourceError(
            f"the tokenizer of {name} is a {type(tokenizer).__name__}, which exists in Python only",
            hint="write it as tokenizer.json with a fast tokenizer of transformers",
        )
    _check_complete(name, loading["missing_keys"])
    return Opened(model=model.eval(), tokenizer=tokenizer)


def _check_complete(name: str, missing: Collection[str]) -> None:
    """Refuse a model some of whose weights transformers drew at random, for it found none.

    Raises:
        SourceError: there are such.
    """
    if missing:
        shown = sorted(missing)
        more = f" and {len(shown) - 3} more" if shown[3:] else ""
        raise SourceError(
            f"{name} holds no weights for {', '.join(shown[:3])}{more}",
            hint="copy or download it again; or its config.json is of another model",
        )


def _kind(folder: Path, where: Mapping[str, Any]) -> Any:
    """What opens a model: by whether it has an encoder, and of what."""
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSpeechSeq2Seq,
    )
    from transformers.models.auto.modeling_auto import MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING

    config = AutoConfig.from_pretrained(folder, local_files_only=True, **where)
    if not getattr(config, "is_encoder_decoder", False):
        return AutoModelForCausalLM
    if type(config) in MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING:
        return AutoModelForSpeechSeq2Seq
    return AutoModelForSeq2SeqLM


def _tensor_names(model: Any) -> dict[str, str]:
    """What GGUF files call the weights of a model, by transformers' own table."""
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    config = model.config
    kind = TENSOR_PROCESSORS.get(config.model_type, TensorProcessor)
    found = get_gguf_hf_weights_map(model, kind(config=config.to_dict()))
    known = set(model.state_dict())
    return {weight: tensor for tensor, weight in found.items() if weight in known}


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep transformers' bars and advice from the user; its reader of GGUF asks nobody."""
    from transformers.utils import logging as own

    level = own.get_verbosity()
    bars = own.is_progress_bar_enabled()
    own.set_verbosity(logging.ERROR)
    own.disable_progress_bar()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        own.set_verbosity(level)
        if bars:
            own.enable_progress_bar()
