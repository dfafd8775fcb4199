"""`edgec view` and `edgec diff`: programs and modules to a page that shows what is in them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgec.cli.options import complete_target
from edgec.cli.program_files import is_program_file
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import FileError, UsageError

if TYPE_CHECKING:
    from edgec.viewing import Graph

__all__ = ["diff", "view"]

_File = Annotated[
    Path,
    typer.Argument(
        metavar="PROGRAM|MODULE",
        help="A program (.mlirbc, .mlir) or a module (.vmfb).",
        show_default=False,
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html",
        help="The page (default: NAME.html in this folder).",
        show_default=False,
    ),
]
_Target = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        help="Of a program: whose kernels are asked what they take, and why not.",
        autocompletion=complete_target,
    ),
]


def view(
    session: Session,
    file: _File,
    output: _Output = None,
    target: _Target = "cpu",
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE.json",
            help="Times: what `edgec bench --profile --json` printed.",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        Path | None,
        typer.Option(
            "--layers",
            metavar="FILE.json",
            help="Kernels and errors: what `edgec verify --layers --json` printed.",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Write one HTML page, which needs no server, of what a program or module is made of."""
    if layers is not None and not is_program_file(file):
        raise UsageError(
            f"--layers={layers} is of a program's values, and {file} is a module",
            hint="give the program",
        )
    path = _place(output or Path(f"{file.stem}.html"))
    graph = _graph(file, target)
    if layers is not None:
        found = _part(layers, "layers", "verify --layers --json")
        graph = graph.with_layers(found["layers"])
        if found.get("framework"):
            graph = graph.with_framework(found["framework"]["values"])
    if profile is not None:
        graph = graph.with_profile(_part(profile, "profile", "bench --profile --json"))
    _write(session, graph, path)
    return Report(
        data={"file": file, "page": path, "nodes": len(graph.nodes)},
        blocks=(f"{path}: {len(graph.nodes)} nodes of {file}",),
    )


def diff(
    session: Session,
    one: _File,
    other: _File,
    output: _Output = None,
    target: _Target = "cpu",
) -> Report:
    """Compare two programs or two modules, and write a page of both."""
    from edgec.viewing import compared

    if is_program_file(one) != is_program_file(other):
        raise UsageError(
            f"{one} and {other} are a program and a module", hint="compare two of one kind"
        )
    path = _place(output or Path(f"{one.stem}-{other.stem}.html"))
    graph = compared(_graph(one, target), _graph(other, target))
    _write(session, graph, path)
    changes = [node for node in graph.nodes if node.state]
    shown = changes[:_MOST]
    blocks: list[Block] = [f"{path}: {len(changes)} of {len(graph.nodes)} nodes differ"]
    if shown:
        rows = tuple((node.state, node.name, node.shape, node.line) for node in shown)
        blocks.append(Grid(columns=("", "node", "gives", "line"), rows=rows))
    if len(shown) < len(changes):
        blocks.append(f"and {len(changes) - len(shown)} more, on the page")
    blocks += [f"{name}: {text}" for name, text in graph.facts.items()]
    return Report(
        data={
            "one": one,
            "other": other,
            "page": path,
            "nodes": len(graph.nodes),
            "facts": dict(graph.facts),
            "changes": [
                {"state": n.state, "name": n.name, "shape": n.shape, "line": n.line}
                for n in changes
            ],
        },
        blocks=tuple(blocks),
        exit_code=1 if changes else 0,
    )


_MOST = 40


def _graph(file: Path, target: str) -> "Graph":
    """The graph of a file, with what kernels say of a program's operations."""
    from edgec.runtime import Module
    from edgec.toolchain import CompileOptions, load_program, run_passes
    from edgec.viewing import graph_of_module, graph_of_program

    if not is_program_file(file):
        return graph_of_module(Module.read(file))
    program = load_program(file)
    graph = graph_of_program(program)
    share = run_passes(program, target, CompileOptions()).kernels
    return graph if share is None else graph.with_kernels(share.left)


def _part(path: Path, key: str, verb: str) -> Mapping[str, Any]:
    """A part of what a verb printed with --json.

    Raises:
        FileError: the file cannot be read, or is another.
    """
    from edgec.runtime.files import read_bytes

    try:
        value = json.loads(read_bytes(path))[key]
        if not isinstance(value, dict):
            raise ValueError("there is nothing in it")
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} is not what `edgec {verb}` prints: {error!r}",
            hint=f"write it with `edgec {verb} > {path}`",
        ) from error
    return value


def _place(path: Path) -> Path:
    """Where a page goes, refused before there is work for it."""
    from edgec.cli.folders import make_place

    if path.suffix != ".html":
        raise UsageError(f"the page cannot be named {path}", hint="end its name in .html")
    make_place(path)
    return path


def _write(session: Session, graph: "Graph", path: Path) -> None:
    from edgec.runtime.files import write_atomically
    from edgec.viewing import page

    with write_atomically(path) as stream:
        stream.write(page(graph).encode())
    session.detail(f"open {path} in a browser")
