"""`edgec generate`: a module with a language model and a prompt to text."""

from functools import partial
from typing import Annotated

import typer

from edgec.cli.options import DeviceOption, KeyOption, ModuleArgument, WeightsOption
from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.cli.writing import (
    GrammarOption,
    JsonSchemaOption,
    LimitOption,
    MinPOption,
    PatternOption,
    RepetitionPenaltyOption,
    SeedOption,
    SpeculateOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    WhenFullOption,
    constraint_of,
    source_of,
    when_full_of,
    write_answer,
)
from edgec.runtime.errors import InputError

__all__ = ["generate"]


def generate(
    session: Session,
    module: ModuleArgument,
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT",
            help="What the model answers; @FILE.npy for one that reads sound.",
            show_default=False,
        ),
    ],
    limit: LimitOption = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Go on with the prompt as it stands, without chat template."),
    ] = False,
    device: DeviceOption = None,
    weights: WeightsOption = None,
    key: KeyOption = None,
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: MinPOption = 0.0,
    repetition_penalty: RepetitionPenaltyOption = 1.0,
    seed: SeedOption = 0,
    when_full: WhenFullOption = "stop",
    speculate: SpeculateOption = True,
    json_schema: JsonSchemaOption = None,
    grammar: GrammarOption = None,
    pattern: PatternOption = None,
) -> Report:
    """Write what a language model answers to a prompt, as it writes it."""
    from edgec.runtime.text import Sampling, TextModel

    sampling = Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    if not prompt:
        raise InputError("the prompt is empty", hint="give a text to answer")
    full = when_full_of(when_full)
    constraint = constraint_of(json_schema, grammar, pattern)
    with TextModel(module, device=device, weights=weights, key=key) as model:
        given = source_of(prompt, model.facts.source)
        talks = not raw and model.facts.template and not model.facts.source
        start = partial(model.chat, prompt) if talks else partial(model.generate, given)
        answer = start(
            sampling=sampling,
            limit=limit,
            when_full=full,
            speculate=speculate,
            constraint=constraint,
        )
        write_answer(session, answer)
        session.detail(str(answer.stats))
        return Report(
            data={
                "module": module,
                "device": model.module.device.uri,
                "text": answer.text,
                "tokens": answer.tokens,
                "finish": answer.finish.value,
                "stats": answer.stats.to_json(),
            }
        )
