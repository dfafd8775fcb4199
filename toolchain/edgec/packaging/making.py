"""A program and a kind of package to the folder: compile each variant, build, list, rename."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

from edgec.packaging.bom import without_bom, write_bom
from edgec.packaging.folder import new_folder, refuse_occupied
from edgec.packaging.kinds import KINDS, Kind
from edgec.packaging.licences import write_licences
from edgec.packaging.names import identifier, pascal
from edgec.packaging.plan import BuiltVariant, Made, Plan
from edgec.packaging.proving import prove
from edgec.packaging.shared_weights import share_weights
from edgec.runtime.errors import (
    CompileError,
    EdgecError,
    FileError,
    TargetError,
    UsageError,
    WrongAnswer,
)
from edgec.runtime.manifest import MANIFEST, Manifest, shared_file, variant_of
from edgec.targets import Backend, Target, expand
from edgec.toolchain import CompileOptions, Program, compile_with_report, load_program
from edgec.toolchain.embedding import embed_weights
from edgec.toolchain.seeding import answer_seeds

__all__ = ["PackageOptions", "check_package", "make_package", "targets_of"]


_WITHOUT = "the modules bring no golden calls, and cannot prove themselves"


@dataclass(frozen=True, kw_only=True)
class PackageOptions:
    """How to make a package.

    Attributes:
        targets: what to compile for; empty for the kind's own.
        name: the model's name; empty for the program file's.
        compiling: how to compile; `output` is the package's own affair.
        replace: take the place of a package that is in the folder.
        embed: put golden calls into the modules, with which they prove themselves where they land.
        prove: run the package's own test on this machine, as far as that is possible.
        link: compile kernels into object files that the app links, instead of code that is loaded
            at run time; None for what the kind does.
        options: what only this kind of package has, by name.
    """

    targets: tuple[str, ...] = ()
    name: str = ""
    compiling: CompileOptions = field(default_factory=CompileOptions)
    replace: bool = False
    embed: bool = True
    prove: bool = False
    link: bool | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def make_package(
    program: Program | Path | str,
    kind: str,
    destination: Path | str,
    options: PackageOptions = PackageOptions(),
) -> Made:
    """Make a package; the folder is there whole, or nothing is.

    Raises:
        UsageError: there is no such kind, or options that do not go together.
        TargetError: there is no such target, or the package's runtime cannot run it.
        FileError: a file cannot be read, or the folder not be written.
        CompileError: a variant that was named cannot be compiled, or none can be, or the program is
            not fit for a package.
        WrongAnswer: a variant's answers, or those of the package's own test, differ from the
            golden ones.
    """
    destination = Path(destination)
    targets = check_package(kind, destination, options)
    chosen = KINDS[kind]
    if isinstance(program, (Path, str)):
        program = load_program(program, cache=options.compiling.cache)
    program = embed_weights(program)
    title = options.name or program.name
    with new_folder(destination, replace=options.replace) as folder:
        plan = _plan(
            program=program,
            kind=chosen,
            title=title,
            folder=folder,
            destination=destination,
            targets=targets,
            link=_links(chosen, options),
            options=options,
        )
        chosen.build(plan)
        write_licences(plan)
        write_bom(plan)
        plan.write(MANIFEST, plan.manifest.text())
        proofs = prove(plan) if options.prove else ()
        files = {
            file.relative_to(folder).as_posix(): file.stat().st_size
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
    notes = [note for variant in plan.variants for note in variant.compiled.report.notes]
    return Made(
        folder=destination,
        kind=chosen,
        manifest=plan.manifest,
        files=files,
        notes=tuple(dict.fromkeys([*plan.notes, *notes])),
        proofs=proofs,
        checks={v.target.name: v.compiled.report.check for v in plan.variants},
    )


def check_package(
    kind: str, destination: Path | str, options: PackageOptions = PackageOptions()
) -> tuple[Target, ...]:
    """What a package would be compiled for; a package that cannot be made is refused here.

    Raises:
        UsageError: there is no such kind, or options that do not go together.
        TargetError: there is no such target, or the package's runtime cannot run it.
        FileError: the folder is in use.
    """
    chosen = KINDS.get(kind)
    if chosen is None:
        raise UsageError(f"there is no kind of package {kind!r}", hint=f"use {', '.join(KINDS)}")
    targets = targets_of(chosen, options.targets)
    if _links(chosen, options):
        targets = _one_each(targets, chosen_by_user=bool(options.targets))
    refuse_occupied(Path(destination), replace=options.replace)
    return targets


def _links(kind: Kind, options: PackageOptions) -> bool:
    return kind.links if options.link is None else options.link


def targets_of(kind: Kind, names: Sequence[str]) -> tuple[Target, ...]:
    """The targets of a package, in the order in which a runtime tries them.

    Of two for one instruction set, the one that asks for more comes first, since the other would
    never be reached behind it; otherwise the order is the caller's.

    Raises:
        TargetError: there is no such target, or the package's runtime has no driver for it.
    """
    targets = expand(names or kind.targets)
    for target in targets:
        if target.driver not in kind.drivers:
            raise TargetError(
                f"a package for {kind.name} cannot run {target.name}: its runtime has no driver "
                f"{target.driver}",
                hint=f"leave --target out for {', '.join(kind.targets)}",
            )
        triple = target.cpu.triple if target.cpu else ""
        is_foreign = target.cpu is not None and target.isa not in kind.isas
        if (kind.isas and is_foreign) or kind.system not in triple:
            raise TargetError(
                f"a package for {kind.name} does not run on {target.name}",
                hint=f"leave --target out for {', '.join(kind.targets)}",
            )
    groups: dict[str, list[Target]] = {}
    for target in targets:
        triple = target.cpu.triple if target.cpu else ""
        groups.setdefault(f"{target.driver} {triple.partition('-')[0]}", []).append(target)
    for group in groups.values():
        group.sort(key=lambda target: -len(target.required_features))
    return tuple(target for group in groups.values() for target in group)


def _one_each(targets: Sequence[Target], *, chosen_by_user: bool) -> tuple[Target, ...]:
    """For each system the target that asks for the least: only one can be linked into a program.

    Raises:
        UsageError: the user named two for one system.
    """
    last: dict[str, Target] = {}
    for target in targets:
        triple = target.cpu.triple if target.cpu else ""
        if chosen_by_user and triple in last:
            raise UsageError(
                f"{last[triple].name} and {target.name} cannot both be linked into one program",
                hint="leave one out",
            )
        last[triple] = target
    return tuple(last.values())


def _plan(
    *,
    program: Program,
    kind: Kind,
    title: str,
    folder: Path,
    destination: Path,
    targets: Sequence[Target],
    link: bool,
    options: PackageOptions,
) -> Plan:
    """Compile every variant into the folder, and say what is there."""
    name = identifier(title, "model").lower()
    modules = folder / kind.modules.format(name=name, type=pascal(name))
    try:
        modules.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make {modules}: {error.strerror}") from error
    weights = modules / f"{name}.safetensors"
    base, without = _seeded(program, options)
    shared = share_weights(program, targets, base, weights)
    variants, refused = [], {}
    for target in targets:
        path = modules / f"{name}.{target.file_name}.vmfb"
        compiling = replace(base, output=path, outside=shared.outside.get(target.name))
        try:
            made = _variant(program, target, path, folder, link=link, compiling=compiling)
        except CompileError as error:
            if options.targets:  # asked for by name
                raise
            refused[target.name] = error
            continue
        variants.append(made)
    if not variants:
        raise next(iter(refused.values()))
    module = variants[0].compiled.module
    if not module.signatures:
        reasons = "; ".join(f"{n}: {why}" for n, why in module.refused.items())
        raise CompileError(
            f"{title} has no function that can be called ({reasons or 'none is public'})",
            hint="export it with edgec, or make a function public",
        )
    return Plan(
        kind=kind,
        name=name,
        title=title,
        folder=folder,
        destination=destination,
        signatures=module.signatures,
        variants=tuple(variants),
        manifest=Manifest(
            name=name,
            kind=kind.name,
            edgec=metadata.version("edgec"),
            signatures=tuple(module.signatures.values()),
            variants=tuple(variant.entry for variant in variants),
            weights=shared_file(weights, weights.relative_to(folder).as_posix())
            if shared.outside
            else None,
        ),
        notes=(
            *without,
            *without_bom(),
            *shared.notes(),
            *(_left_out(name, error) for name, error in refused.items()),
        ),
        tolerance=variants[0].compiled.report.tolerance,
        provenance=program.info.provenance,
        golden=program.golden,
        options=options.options,
    )


def _seeded(program: Program, options: PackageOptions) -> tuple[CompileOptions, tuple[str, ...]]:
    """How to compile, with golden calls for the modules; or a note that says why there are none."""
    if not options.embed:
        return options.compiling, ()
    try:
        seeded = answer_seeds(program, options.compiling)
    except WrongAnswer:
        if options.prove:
            raise
        return options.compiling, (f"{_WITHOUT}: the golden answers are not those of a CPU",)
    except EdgecError as error:
        note = f"{_WITHOUT}: {error.what}"
        return options.compiling, (note,)
    return replace(options.compiling, seeded=seeded), ()


def _left_out(target: str, error: CompileError) -> str:
    where = f" (at {error.where})" if error.where else ""
    return f"there is no variant for {target}, which cannot be made: {error.what}{where}"


def _variant(
    program: Program,
    target: Target,
    path: Path,
    folder: Path,
    *,
    link: bool,
    compiling: CompileOptions,
) -> BuiltVariant:
    library = None
    if link:
        if target.backend is not Backend.CPU:
            raise TargetError(f"{target.name} has no kernels that could be linked into an app")
        library = path.with_suffix(".o")
        compiling = replace(
            compiling,
            # The object file is beside what the cache keeps, and no runtime here has it linked.
            cache=False,
            check=False,
            iree_args=(*compiling.iree_args, *_link_arguments(library)),
        )
    compiled = compile_with_report(program, target, compiling)
    entry = variant_of(compiled.module, path.relative_to(folder).as_posix())
    if not entry.needs.isa and target.cpu is not None:
        entry = replace(entry, needs=replace(entry.needs, isa=target.isa))
    return BuiltVariant(target=target, compiled=compiled, entry=entry, library=library)


def _link_arguments(library: Path) -> tuple[str, ...]:
    return (
        "--iree-llvmcpu-link-embedded=false",
        "--iree-llvmcpu-link-static",
        f"--iree-llvmcpu-static-library-output-path={library}",
    )
