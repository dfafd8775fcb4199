"""The verbs as one typer application, and the flags that all of them share."""

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TextIO

import typer

from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.cli.verbs.bench import bench
from edgec.cli.verbs.cache import cache
from edgec.cli.verbs.chat import chat
from edgec.cli.verbs.compile import compile
from edgec.cli.verbs.devices import devices
from edgec.cli.verbs.doctor import doctor
from edgec.cli.verbs.export import export
from edgec.cli.verbs.generate import generate
from edgec.cli.verbs.inspect import inspect as inspect_verb
from edgec.cli.verbs.package import package
from edgec.cli.verbs.plan import plan
from edgec.cli.verbs.quantise import quantise
from edgec.cli.verbs.run import run
from edgec.cli.verbs.sign import keygen, sign
from edgec.cli.verbs.split import split
from edgec.cli.verbs.targets import targets
from edgec.cli.verbs.tune import tune
from edgec.cli.verbs.upgrade import upgrade
from edgec.cli.verbs.verify import verify
from edgec.cli.verbs.view import diff, view
from edgec.runtime.errors import UsageError

__all__ = ["VERBS", "command"]

VERBS: dict[str, Callable[..., Report]] = {
    "export": export,
    "quantise": quantise,
    "compile": compile,
    "tune": tune,
    "split": split,
    "plan": plan,
    "package": package,
    "run": run,
    "bench": bench,
    "verify": verify,
    "upgrade": upgrade,
    "keygen": keygen,
    "sign": sign,
    "generate": generate,
    "chat": chat,
    "inspect": inspect_verb,
    "view": view,
    "diff": diff,
    "devices": devices,
    "targets": targets,
    "doctor": doctor,
    "cache": cache,
}
"""Every verb, in the order in which a model meets them."""

_PANEL = "Output"
_JSON = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=_PANEL)
]
_VERBOSE = Annotated[
    int,
    typer.Option("--verbose", "-v", count=True, help="Say more on stderr.", rich_help_panel=_PANEL),
]
_QUIET = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only errors on stderr.", rich_help_panel=_PANEL)
]


def command() -> Any:
    """The command to run with `main(args, obj=Session())`; a verb's `Report` comes back."""
    app = typer.Typer(
        name="edgec",
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Take a JAX, PyTorch or TensorFlow model to where it runs.\n\n"
        "Typical: [bold]edgec export model.py:net -o net.mlirbc[/bold], then "
        "[bold]edgec compile net.mlirbc --target=vulkan -o net.vmfb[/bold], then "
        "[bold]edgec run net.vmfb --input=@x.npy[/bold].",
    )
    app.callback(invoke_without_command=True)(_global_options)
    for name, verb in VERBS.items():
        app.command(name)(_with_session(name, verb))
    return typer.main.get_command(app)


def _show_version(value: bool) -> None:
    if not value:
        return
    from importlib import metadata

    typer.echo(f"edgec {metadata.version('edgec')}")
    raise typer.Exit


def _global_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print edgec's version."
        ),
    ] = False,
    json: _JSON = False,
    verbose: _VERBOSE = 0,
    quiet: _QUIET = False,
) -> None:
    _settle(context.obj, json=json, verbose=verbose, quiet=quiet)
    if context.invoked_subcommand is not None:
        return
    if context.obj.json:
        raise UsageError("there is no verb", hint="see `edgec --help`")
    typer.echo(context.get_help())


def _settle(session: Session, *, json: bool, verbose: int, quiet: bool) -> None:
    """What the flags before the verb and those after it ask for together; quiet wins."""
    session.json = session.json or json
    if quiet or session.verbosity < 0:
        session.verbosity = -1
    else:
        session.verbosity = max(session.verbosity, verbose)


def _with_session(name: str, verb: Callable[..., Report]) -> Callable[..., Report]:
    """Give a verb the shared flags; it takes a `Session` as its first argument instead."""

    @functools.wraps(verb)
    def run_verb(context: typer.Context, **given: Any) -> Report:
        session: Session = context.obj
        session.verb = name
        _settle(
            session,
            json=given.pop("json_output"),
            verbose=given.pop("verbose"),
            quiet=given.pop("quiet"),
        )
        with _output_to_stderr() as write:
            session.write = write
            return verb(session, **given)

    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("json_output", keyword, default=False, annotation=_JSON),
        inspect.Parameter("verbose", keyword, default=0, annotation=_VERBOSE),
        inspect.Parameter("quiet", keyword, default=False, annotation=_QUIET),
    ]
    first = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [first, *(p.replace(kind=keyword) for p in own), *shared]
    run_verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run_verb


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[Callable[[str], None]]:
    """Whatever prints while a verb works (a model's own code, a library) goes to stderr.

    What the verb itself says on the way goes through what is given here.
    """
    own = sys.stdout
    own.flush()
    with contextlib.redirect_stdout(sys.stderr):
        try:
            kept = os.dup(1)
            os.dup2(2, 1)
        except OSError:  # one of them is closed
            yield functools.partial(_write, own)
            return
        try:
            yield functools.partial(_write, own if _descriptor(own) != 1 else kept)
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def _descriptor(stream: TextIO) -> int | None:
    """The number of the file behind a stream, if there is one."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _write(where: TextIO | int, text: str) -> None:
    """Write at once, to a stream or to the file of this number."""
    if not isinstance(where, int):
        where.write(text)
        where.flush()
        return
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(where, data) :]
