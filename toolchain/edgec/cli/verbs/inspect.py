"""`edgec inspect`: what a module or a program is, without running it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgec.cli.program_files import is_program_file
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.cli.state_lines import state_lines

if TYPE_CHECKING:
    from edgec.runtime import Module
    from edgec.toolchain import Program

__all__ = ["inspect"]

_MANY = 20


def inspect(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A module (.vmfb) or a program (.mlirbc, .mlir).",
            show_default=False,
        ),
    ],
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Every entry of the tables, not only the largest.")
    ] = False,
) -> Report:
    """Show signatures, versions, sizes and imports of a module, or what a program is made of."""
    if is_program_file(file):
        return _program(file, everything=everything)
    return _module(file, everything=everything)


def _module(path: Path, *, everything: bool) -> Report:
    from edgec.cli.amounts import bytes_text
    from edgec.runtime import Module

    module = Module.read(path)
    facts = module.facts
    major, minor = module.bytecode_version
    rows = [
        ("target", facts.target or "not compiled by edgec"),
        ("driver", facts.driver),
        ("check", facts.check),
        ("kernels", "" if facts.kernels is None else str(facts.kernels)),
        ("edgec", facts.edgec),
        ("compiler", facts.compiler),
        ("formats", ", ".join(module.formats)),
        ("needs of the CPU", ", ".join(facts.cpu_features)),
        ("byte code", f"{major}.{minor}"),
        ("size", bytes_text(module.sizes.total)),
        ("signed by", f"{module.seal.key_name}, not checked" if module.seal else ""),
    ]
    blocks: list[Block] = [
        f"{path}: module {module.name}",
        *(f"  {name + ':':<18} {value}" for name, value in rows if value),
        "",
        *(f"{signature}" for signature in module.signatures.values()),
        *(f"{name}: cannot be called: {why}" for name, why in module.refused.items()),
        *state_lines(facts.states),
    ]
    if facts.weights is not None:
        weights = facts.weights
        blocks.append(f"weights: {len(weights.names)} from {weights.file} (scope {weights.scope})")
    blocks += ["", *_sizes(module, everything=everything)]
    required = [i for i in module.imports if not i.optional]
    if everything:
        rows_ = tuple(
            (i.name, i.convention, "optional" if i.optional else "") for i in module.imports
        )
        blocks += ["", Grid(columns=("import", "convention", ""), rows=rows_)]
    else:
        blocks.append(
            f"imports: {len(module.imports)} functions, {len(required)} required (--all lists them)"
        )
    return Report(data=_module_json(module), blocks=tuple(blocks))


def _sizes(module: "Module", *, everything: bool) -> list[Block]:
    from edgec.cli.amounts import bytes_text

    sizes = module.sizes
    total = max(1, sizes.total)
    parts = tuple(
        (part.value, bytes_text(size), f"{size / total:.1%}")
        for part, size in sizes.by_part().items()
        if size
    )
    entries = sorted(sizes.entries, key=lambda e: -e.size)
    shown = entries if everything else entries[:_MANY]
    blocks: list[Block] = [
        Grid(columns=("part", "size", "share"), rows=parts, right=frozenset({1, 2})),
        "",
        Grid(
            columns=("largest pieces", "part", "size", "format"),
            rows=tuple((e.name, e.part.value, bytes_text(e.size), e.format) for e in shown),
            right=frozenset({2}),
        ),
    ]
    if len(entries) > len(shown):
        blocks.append(f"and {len(entries) - len(shown)} smaller ones (--all lists them)")
    return blocks


def _module_json(module: "Module") -> dict[str, Any]:
    return {
        "kind": "module",
        "file": module.path,
        "name": module.name,
        "facts": module.facts.to_json(),
        "signatures": [s.to_json() for s in module.signatures.values()],
        "refused": dict(module.refused),
        "sizes": module.sizes.to_json(),
        "imports": [
            {"name": i.name, "convention": i.convention, "optional": i.optional}
            for i in module.imports
        ],
        "formats": list(module.formats),
        "code_features": list(module.code_features),
        "bytecode_version": list(module.bytecode_version),
        "signed_by": None if module.seal is None else module.seal.key_name,
    }


def _program(path: Path, *, everything: bool) -> Report:
    from edgec.cli.amounts import bytes_text
    from edgec.toolchain import load_program
    from edgec.toolchain.portable import portable_version

    program = load_program(path)
    info = program.info
    provenance = info.provenance
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
    calls = 0 if program.golden is None else len(program.golden.calls)
    rows = [
        ("dialect", info.dialect.value),
        ("StableHLO", portable_version(program.bytecode)),
        ("framework", provenance.framework),
        ("versions", versions),
        ("source", provenance.source),
        ("licence", provenance.licence),
        (
            "golden answers",
            f"{calls} call{'s' * (calls > 1)}" if calls else "none: modules cannot be checked",
        ),
        ("size", bytes_text(len(program.bytecode))),
        ("SHA-256", program.digest),
    ]
    blocks: list[Block] = [
        f"{path}: program",
        *(f"  {name + ':':<18} {value}" for name, value in rows if value),
        "",
        *(str(f.signature) for f in info.functions),
        *state_lines(info.states),
    ]
    if info.weights is not None:
        weights = info.weights
        blocks.append(f"weights: {len(weights.names)} from {weights.file} (scope {weights.scope})")
    counts = _operations(program)
    shown = counts if everything else dict(list(counts.items())[:_MANY])
    blocks += [
        "",
        Grid(
            columns=("operation", "count"),
            rows=tuple((name, str(count)) for name, count in shown.items()),
            right=frozenset({1}),
        ),
    ]
    if len(shown) < len(counts):
        blocks.append(f"and {len(counts) - len(shown)} kinds more (--all lists them)")
    return Report(data=_program_json(path, program, counts), blocks=tuple(blocks))


def _program_json(path: Path, program: "Program", counts: dict[str, int]) -> dict[str, Any]:
    from edgec.toolchain.portable import portable_version

    info = program.info
    weights = info.weights
    return {
        "kind": "program",
        "file": path,
        "size": len(program.bytecode),
        "sha256": program.digest,
        "dialect": info.dialect.value,
        "stablehlo": portable_version(program.bytecode),
        "framework": info.provenance.framework,
        "versions": dict(info.provenance.versions),
        "source": info.provenance.source,
        "licence": info.provenance.licence,
        "signatures": [f.signature.to_json() for f in info.functions],
        "states": [s.to_json() for s in info.states],
        "weights": None
        if weights is None
        else {"scope": weights.scope, "file": weights.file, "names": list(weights.names)},
        "golden_calls": 0 if program.golden is None else len(program.golden.calls),
        "operations": counts,
    }


def _operations(program: "Program") -> dict[str, int]:
    """How often each operation is in the program, the most frequent first.

    `load_program` has read the same bytes in a child process, so they are sound.
    """
    from collections import Counter

    from iree.compiler import ir

    from edgec.toolchain.stablehlo import parse_stablehlo

    counts: Counter[str] = Counter()

    def count(operation: Any) -> Any:
        counts[operation.name] += 1
        return ir.WalkResult.ADVANCE

    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        parse_stablehlo(program.bytecode, context).operation.walk(count)
    counts.pop("builtin.module", None)
    return dict(counts.most_common())
