"""`edgec chat`: a conversation with a language model, in the terminal."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

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
    when_full_of,
    write_answer,
)
from edgec.runtime.errors import InputError

if TYPE_CHECKING:
    from edgec.runtime.text import Constraint, Sampling, Stats, TextModel, WhenFull

__all__ = ["chat"]

_HELP = "/stats: what the last answer took; /reset: begin anew; /quit or Ctrl-D: end; Ctrl-C: stop"


def chat(
    session: Session,
    module: ModuleArgument,
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            metavar="TEXT",
            help="What the model is told before the conversation.",
            show_default=False,
        ),
    ] = None,
    limit: LimitOption = None,
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
    """Talk with a language model: it answers line by line what is typed or piped in."""
    from edgec.runtime.text import Sampling, TextModel

    sampling = Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    full = when_full_of(when_full)
    constraint = constraint_of(json_schema, grammar, pattern)
    with TextModel(module, device=device, weights=weights, key=key) as model:
        if not model.facts.template:
            raise InputError(
                f"{module} has no chat template",
                hint=f'go on with a text: edgec generate {module} "…"',
            )
        if sys.stdin.isatty():
            session.say(_HELP)
        how = _How(
            sampling=sampling,
            limit=limit,
            when_full=full,
            speculate=speculate,
            constraint=constraint,
        )
        return _Conversation(session, model, system, how).run()


@dataclass(frozen=True, kw_only=True)
class _How:
    """How answers are written, as `TextModel.chat` takes it."""

    sampling: "Sampling"
    limit: int | None
    when_full: "WhenFull"
    speculate: bool
    constraint: "Constraint | None"


class _Conversation:
    """Messages, and what the last answer took."""

    def __init__(
        self,
        session: Session,
        model: "TextModel",
        system: str | None,
        how: _How,
    ) -> None:
        self._session = session
        self._model = model
        self._start = [] if system is None else [{"role": "system", "content": system}]
        self._how = how
        self._messages = list(self._start)
        self._stats: Stats | None = None

    def run(self) -> Report:
        """Answer lines until there are no more."""
        answers = 0
        while (line := self._line()) is not None:
            match line.strip():
                case "":
                    continue
                case "/quit":
                    break
                case "/reset":
                    self._messages = list(self._start)
                case "/stats":
                    said = "nothing is answered yet" if self._stats is None else str(self._stats)
                    self._session.write(f"{said}\n")
                case "/help":
                    self._session.write(f"{_HELP}\n")
                case question:
                    self._answer(question)
                    answers += 1
        return Report(
            data={
                "module": self._model.module.module.path,
                "answers": answers,
                "messages": self._messages,
                "stats": None if self._stats is None else self._stats.to_json(),
            }
        )

    def _line(self) -> str | None:
        """What is typed; None at the end. Ctrl-C at the prompt ends, too."""
        try:
            if sys.stdin.isatty():
                return input("> ")
            return sys.stdin.readline() or None
        except (EOFError, KeyboardInterrupt):
            return None

    def _answer(self, question: str) -> None:
        """Ask, and write the answer until it ends or is stopped."""
        asked = [*self._messages, {"role": "user", "content": question}]
        from edgec.runtime.text.tokenizer import check_text

        try:
            check_text(question)
        except InputError as error:
            self._session.note(f"{error.what}: {error.hint}")
            return
        try:
            answer = self._model.chat(
                asked,
                sampling=self._how.sampling,
                limit=self._how.limit,
                when_full=self._how.when_full,
                speculate=self._how.speculate,
                constraint=self._how.constraint,
            )
        except InputError as error:  # the conversation has grown too long
            self._session.note(f"{error.what}; /reset begins anew")
            return
        try:
            write_answer(self._session, answer)
        except KeyboardInterrupt:
            self._session.write("\n")
        self._stats = answer.stats
        if answer.finish.value == "context":
            self._session.note("the context is full; /reset begins anew")
        self._messages = [*asked, {"role": "assistant", "content": answer.text}]
