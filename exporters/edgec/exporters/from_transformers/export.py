"""A language model of transformers to a program that reads prompts and writes tokens."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from edgec.exporters.assemble import assemble
from edgec.exporters.dynamic import Dynamic
from edgec.exporters.frameworks import FRAMEWORKS
from edgec.exporters.from_torch.export import trace
from edgec.exporters.from_transformers.anew import token_behind
from edgec.exporters.from_transformers.cache import is_recurrent, reads_chunks
from edgec.exporters.from_transformers.golden_answers import golden_answers
from edgec.exporters.from_transformers.golden_text import golden_text
from edgec.exporters.from_transformers.opening import open_model, silent
from edgec.exporters.from_transformers.source import source_of
from edgec.exporters.from_transformers.stepping import OWNER, stepping
from edgec.exporters.in_blocks import in_blocks
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import SourceError, UnsupportedOp, UsageError
from edgec.runtime.text.facts import TextFacts, packed
from edgec.toolchain.blocked_weights import BlockedWeights
from edgec.toolchain.program import Parameter, Program, Provenance, Role
from edgec.toolchain.weights_file import check_weights_path

__all__ = ["CONTEXT", "PREFILL_SIZES", "export_language_model", "export_opened", "facts_of"]

_LOG = logging.getLogger("edgec.exporters")

CONTEXT = 1024
"""Tokens that a text may have, where nothing else is asked for."""

PREFILL_SIZES = (64, 256)
"""Tokens of a prompt that are read together, where nothing is asked for and a text has room."""

RECURRENT_SIZES = (8, 64)
"""The same of a recurrent model, whose chunks are full."""

ANSWER_SIZES = (64,)
"""The same of what an encoder's reader is told before it answers, which is short."""

_MOST_GUESSES = 64
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


def export_language_model(
    source: str,
    *,
    context: int | None = None,
    prefill: Sequence[int] = (),
    speculate: int = 0,
    floats: bool = False,
    external_weights: Path | None = None,
    folder: Path | None = None,
) -> Program:
    """Make a program of a folder of transformers (`hf:FOLDER`) or a GGUF file.

    Args:
        source: what the user named.
        context: how many tokens prompt and answer may have together; None for 1024, or what the
            model knows, if that is less.
        prefill: how many tokens of a prompt are read together, for each function that does so.
        speculate: how many tokens, guesses among them, a call of `verify` takes; 0 for no such
            function.
        floats: whether the blocks of a GGUF file become f32.
        external_weights: the file to write the weights to; None embeds them.
        folder: where the program will be saved.

    Raises:
        UsageError: sizes that make no sense, or more than the model knows.
        SourceError: it is damaged, or its tokenizer does not fit.
        UnsupportedOp: the architecture is not known, or cannot be exported.
        And what `open_model` raises.
    """
    if external_weights is not None:
        check_weights_path(external_weights)
    _check(prefill, context)
    _check_guesses(speculate)
    opened = open_model(source, floats=floats)
    return export_opened(
        opened.model,
        opened.tokenizer,
        context=context,
        prefill=prefill,
        speculate=speculate,
        external_weights=external_weights,
        folder=folder,
        source=source,
        tensors=opened.tensors,
        blocks=opened.blocks,
    )


@silent()
def export_opened(
    model: Any,
    tokenizer: Any,
    *,
    context: int | None = None,
    prefill: Sequence[int] = (),
    speculate: int = 0,
    external_weights: Path | None = None,
    folder: Path | None = None,
    source: str = "",
    tensors: Mapping[str, str] | None = None,
    blocks: Mapping[str, BlockedWeights] | None = None,
) -> Program:
    """Make a program of a model and its tokenizer, as transformers has them.

    Args:
        model: a `PreTrainedModel` for causal language, in f32.
        tokenizer: its `PreTrainedTokenizerFast`.
        tensors: what the source's own file calls each weight.
        blocks: weights that stay integers in blocks; the model's floats are just what these
            stand for.
        And as in `export_language_model`.

    Raises:
        As `export_language_model`.
    """
    _check(prefill, context)
    _check_guesses(speculate)
    context = _context(model, context)
    sizes = _sizes(prefill, PREFILL_SIZES, context)
    facts = facts_of(model, tokenizer, context=context, prefill=sizes)
    encoded = source_of(model, facts.context)
    if encoded is not None:
        sizes = _sizes(prefill, ANSWER_SIZES, context)
        start = _start(model, tokenizer)
        facts = replace(facts, prefill=sizes, source=encoded.shape, start=start)
    if speculate and encoded is None and _keeps_states(model):
        raise UnsupportedOp(
            f"{type(model).__name__} keeps what all tokens so far have left, so guesses that "
            "are wrong cannot be taken back",
            hint="leave out --speculate",
        )
    facts = replace(facts, verify=speculate)
    try:
        if encoded is None and is_recurrent(model):
            facts = _recurrent(model, facts, prefill)
        functions = _functions(model, facts)
    except UnsupportedOp as refusal:
        if encoded is not None:
            raise
        facts = replace(facts, prefill=sizes, recurrent=False)
        functions = _read_anew(model, facts, refusal)
    framework = FRAMEWORKS["torch"]
    # Before any file is written: a template may be wrong, and a model may not generate.
    texts = golden_text if encoded is None else partial(golden_answers, encoded)
    golden = texts(model, tokenizer, facts)
    program = assemble(
        [in_blocks(_with_own_names(function), blocks or {}) for function in functions],
        provenance=Provenance(
            framework=framework.name,
            versions={"edgec": metadata.version("edgec"), **framework.versions()},
            source=source,
            tensors=tensors or {},
        ),
        external_weights=external_weights,
        folder=folder,
        text=facts,
    )
    return replace(program, golden=golden)


def _keeps_states(model: Any) -> bool:
    """Whether it is recurrent, as far as is known of what it keeps."""
    try:
        return is_recurrent(model)
    except UnsupportedOp:
        return False


def _recurrent(model: Any, facts: TextFacts, prefill: Sequence[int]) -> TextFacts:
    """The facts of a recurrent model, which may go on with one token alone."""
    sizes = _sizes(prefill, RECURRENT_SIZES, facts.context)
    if not reads_chunks(model):
        _LOG.warning(
            "%s goes on from what it has read with one token at a time: it reads a prompt as "
            "slowly as it writes",
            type(model).__name__,
        )
        sizes = ()
    return replace(facts, prefill=sizes, recurrent=True)


def _read_anew(model: Any, facts: TextFacts, refusal: UnsupportedOp) -> Sequence[TracedFunction]:
    """The functions of a model whose text is read anew for each token, as a warning says.

    Raises:
        UnsupportedOp: the refusal, where that cannot be exported either.
    """
    behind = token_behind(model)
    if behind is None:
        raise refusal
    try:
        functions = _functions(model, facts, behind=behind)
    except UnsupportedOp:
        raise refusal from None
    _LOG.warning(
        "nothing is kept of a text but its tokens (%s): each token costs as much as reading %d; a "
        "smaller --context makes it cheaper",
        refusal.what,
        facts.context,
    )
    return functions


def _functions(
    model: Any, facts: TextFacts, *, behind: int | None = None
) -> Sequence[TracedFunction]:
    """The functions of a model with these facts; `behind` as in `stepping`.

    Raises:
        UnsupportedOp: they cannot be traced.
    """
    bundle = stepping(
        model, context=facts.context, prefill=facts.prefill, verify=facts.verify, behind=behind
    )
    # Without golden answers: `golden_text` makes them.
    return trace(bundle, dynamic=Dynamic.parse(None), golden=False)


def _check(prefill: Sequence[int], context: int | None) -> None:
    """Refuse sizes before a model is opened, which takes long.

    Raises:
        UsageError: a chunk, or the context, is too small.
    """
    if min(prefill, default=2) < 2:
        raise UsageError(
            f"a chunk of {min(prefill)} tokens is none", hint="give --prefill sizes of 2 and more"
        )
    if context is not None and context < 2:
        raise UsageError(f"a context of {context} tokens holds no text", hint="give 2 and more")


def _sizes(asked: Sequence[int], usual: Sequence[int], context: int) -> tuple[int, ...]:
    """The sizes of chunks, smallest first: those asked for, or the usual that a text can fill."""
    return tuple(sorted(set(asked))) or tuple(
        size for size in usual if size <= max(context, usual[0])
    )


def _check_guesses(speculate: int) -> None:
    """Refuse a call for guesses that has no room for any.

    Raises:
        UsageError: it has not.
    """
    if speculate and not 2 <= speculate <= _MOST_GUESSES:
        raise UsageError(
            f"--speculate={speculate} reads no guesses along with a token",
            hint=f"give 2 to {_MOST_GUESSES}; 4 suits most processors",
        )


def _context(model: Any, asked: int | None) -> int:
    """How many tokens a text may have.

    Raises:
        UsageError: the model does not know so many.
    """
    known = getattr(model.config, "max_target_positions", None) or getattr(
        model.config.get_text_config(), "max_position_embeddings", None
    )
    if asked is None:
        return min(CONTEXT, known or CONTEXT)
    if known is not None and asked > known:
        raise UsageError(
            f"the model knows texts of up to {known} tokens, and --context is {asked}",
            hint=f"ask for {known} or less",
        )
    return asked


def facts_of(model: Any, tokenizer: Any, *, context: int, prefill: tuple[int, ...]) -> TextFacts:
    """What the module needs to know of the text.

    Raises:
        SourceError: the tokenizer makes tokens that the model does not know.
    """
    vocabulary = int(model.get_output_embeddings().weight.shape[0])
    backend = tokenizer.backend_tokenizer
    # Tokens that were added may lie beyond: transformers itself adds some that no model knows.
    largest = max(backend.get_vocab(with_added_tokens=False).values(), default=-1)
    rows = int(model.get_input_embeddings().weight.shape[0])
    if largest >= rows:
        raise SourceError(
            f"the tokenizer makes tokens up to {largest}, and the model knows {rows}: they do not "
            "belong together",
            hint="take both from the same place",
        )
    return TextFacts(
        context=context,
        prefill=prefill,
        vocabulary=min(vocabulary, rows),
        stop=_stop(model, tokenizer),
        packed=packed(backend.to_str()),
        template=tokenizer.get_chat_template() if tokenizer.chat_template else "",
        special={
            name: str(getattr(tokenizer, name))
            for name in _SPECIAL
            if getattr(tokenizer, name, None) is not None
        },
    )


def _start(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that a decoder begins with: what `generate` puts before all else."""
    settings = model.generation_config
    first = next(
        token
        for token in (
            getattr(settings, "decoder_start_token_id", None),
            getattr(model.config, "decoder_start_token_id", None),
            tokenizer.bos_token_id,
            0,
        )
        if token is not None
    )
    forced = dict(getattr(settings, "forced_decoder_ids", None) or ())
    rest: list[int] = []
    while forced.get(len(rest) + 1) is not None:
        rest.append(int(forced[len(rest) + 1]))
    return (int(first), *rest)


def _stop(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end an answer, as `generate` knows them, and the tokenizer's own."""
    given = getattr(model.generation_config, "eos_token_id", None)
    found = list(given) if isinstance(given, list | tuple) else [given]
    found.append(tokenizer.eos_token_id)
    return tuple(dict.fromkeys(int(token) for token in found if token is not None))


def _with_own_names(function: TracedFunction) -> TracedFunction:
    """The function with the weights called as the model calls them."""

    def named(name: str) -> str:
        return name.removeprefix(f"{OWNER}.")

    def role(given: Role) -> Role:
        return Parameter(name=named(given.name)) if isinstance(given, Parameter) else given

    return replace(
        function,
        arguments=tuple(map(role, function.arguments)),
        parameters={named(name): value for name, value in function.parameters.items()},
    )
