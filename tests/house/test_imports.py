"""Every import points right: cli → exporters → toolchain → targets → runtime."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOTS = ("exporters", "toolchain", "targets", "runtime")

# What code in a package may import of edgec, as prefixes of dotted names.
MAY_IMPORT = {
    "edgec.runtime": ("edgec.runtime",),
    "edgec.targets": ("edgec.targets", "edgec.runtime"),
    "edgec.toolchain": ("edgec.toolchain", "edgec.targets", "edgec.runtime"),
    "edgec.packaging": (
        "edgec.packaging",
        "edgec.ondevice",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.meshing": (
        "edgec.meshing",
        # How a folder takes another's place.
        "edgec.packaging.folder",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.planning": (
        "edgec.planning",
        "edgec.meshing",
        "edgec.splitting",
        # How a folder takes another's place.
        "edgec.packaging.folder",
        # A model that is traced once and cut in many ways.
        "edgec.exporters.mesh.partition",
        "edgec.exporters.mesh.uncut",
        "edgec.exporters.traced",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.quantising": (
        "edgec.quantising",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.signing": (
        "edgec.signing",
        # How a folder takes another's place.
        "edgec.packaging.folder",
        "edgec.runtime",
    ),
    "edgec.splitting": (
        "edgec.splitting",
        # How a folder takes another's place.
        "edgec.packaging.folder",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.verifying": (
        "edgec.verifying",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.plugins": (
        "edgec.plugins",
        "edgec.exporters",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.viewing": (
        "edgec.viewing",
        "edgec.verifying.reference",
        "edgec.toolchain",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.ondevice": (
        "edgec.ondevice",
        # Where what was built is kept.
        "edgec.toolchain.cache",
        "edgec.toolchain.sources",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.kernels": (
        "edgec.kernels",
        "edgec.exporters.extras",
        # How a kernel travels, and what compiles Triton's where the model is.
        "edgec.toolchain.own_kernels",
        "edgec.toolchain.kernels.cuda.triton_compiler",
        "edgec.runtime",
    ),
    "edgec.exporters": (
        "edgec.exporters",
        # Where an importer that may die runs.
        "edgec.toolchain.fork_server",
        "edgec.toolchain.forking",
        # Kernels in the functions that are exported.
        "edgec.kernels",
        # Whether examples of a batch are computed each by itself, and the loop over them.
        "edgec.toolchain.batches",
        # Programs of fixed sizes, to which inputs are filled up.
        "edgec.toolchain.buckets",
        "edgec.toolchain.own_kernels",
        # What lies beside a program: the framework's values on the way to its answers.
        "edgec.toolchain.framework_values",
        # What a program is and how to read one; never how it is compiled.
        "edgec.toolchain.program",
        "edgec.toolchain.load",
        "edgec.toolchain.portable",
        "edgec.toolchain.stablehlo",
        "edgec.toolchain.weights_file",
        # Weights that are integers in blocks, and how a function takes them.
        "edgec.toolchain.blocked_weights",
        "edgec.toolchain.ir.bind_blocks",
        "edgec.toolchain.ir.functions",
        # Loops that an importer leaves out, written where they were.
        "edgec.toolchain.ir.joining",
        "edgec.toolchain.ir.write",
        "edgec.targets",
        "edgec.runtime",
    ),
    "edgec.cli": ("edgec",),
}

# Slow to import: only inside the function that needs them.
HEAVY = (
    *("jax", "jaxlib", "flax", "equinox", "torch", "torch_mlir", "tensorflow", "keras"),
    *("onnx", "onnxruntime", "tf2onnx", "transformers", "PIL", "iree.compiler", "iree.runtime"),
    "cryptography",
)

# Rewriting rules work on MLIR throughout; whoever needs them imports these modules inside a
# function (`test_packages_import_without_the_compiler_and_frameworks` holds it to that).
ON_MLIR_THROUGHOUT = (
    "edgec.exporters.from_onnx.loop_code",
    *(
        f"edgec.toolchain.{part}."
        for part in ("batches", "buckets", "ir", "match", "kernels", "passes")
    ),
    *(
        f"edgec.quantising.{part}"
        for part in (
            *("byte_rewriting", "layers", "rewriting", "rounding_rows", "sites"),
            "states_in_halves",
        )
    ),
)


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Dotted name and file of every module of edgec."""
    for source in ROOTS:
        for file in sorted((root / source / "edgec").rglob("*.py")):
            parts = file.relative_to(root / source).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__"), file


def _imported(node: ast.AST) -> Iterator[str]:
    """Dotted names that an import statement may load; nothing for other nodes."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import in line {node.lineno}"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _on_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The import statements that run when the module itself is imported."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _on_import(node.orelse)
            continue
        yield node
        for inner in ("body", "orelse", "finalbody"):
            yield from _on_import(getattr(node, inner, []))
        for handler in getattr(node, "handlers", []):
            yield from _on_import(handler.body)


def _within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == p or name.startswith(f"{p}.") for p in prefixes)


def test_no_init_file_makes_edgec_a_plain_package(root: Path) -> None:
    assert not list(root.glob("*/edgec/__init__.py"))
    assert not (root / "edgec").exists()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_right(root: Path, package: str) -> None:
    files = [(name, file) for name, file in _modules(root) if _within(name, (package,))]
    assert files, f"no module of {package} found"
    wrong = [
        f"{file.relative_to(root)}:{node.lineno} imports {target}"
        for _, file in files
        for node in ast.walk(ast.parse(file.read_text()))
        for target in _imported(node)
        if target.split(".")[0] == "edgec" and not _within(target, MAY_IMPORT[package])
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_belongs_to_a_package_of_the_table(root: Path) -> None:
    strays = [name for name, _ in _modules(root) if not _within(name, tuple(MAY_IMPORT))]
    assert not strays


def test_frameworks_and_the_compiler_are_imported_inside_functions(root: Path) -> None:
    wrong = [
        f"{file.relative_to(root)}:{node.lineno} imports {target}"
        for name, file in _modules(root)
        if not name.startswith(ON_MLIR_THROUGHOUT)
        for node in _on_import(ast.parse(file.read_text()).body)
        for target in _imported(node)
        if _within(target, HEAVY)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_runtime_never_imports_the_compiler(root: Path) -> None:
    wrong = [
        f"{file.relative_to(root)}:{node.lineno}"
        for name, file in _modules(root)
        if _within(name, ("edgec.runtime", "edgec.targets"))
        for node in ast.walk(ast.parse(file.read_text()))
        for target in _imported(node)
        if _within(target, ("iree.compiler",))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle(root: Path) -> None:
    """Imports inside functions count; those for types alone do not."""
    modules = dict(_modules(root))
    imports = {name: _needs(name, file, set(modules)) for name, file in modules.items()}
    for name in modules:
        back = {other for other in _reached(name, imports) if name in _reached(other, imports)}
        circle = back | {name} if back else set()
        assert not circle, sorted(circle)


def _needs(name: str, file: Path, modules: set[str]) -> set[str]:
    """The modules of edgec that a module imports anywhere."""
    tree = ast.parse(file.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    needed = set()
    for node in ast.walk(tree):
        for target in () if id(node) in for_types else _imported(node):
            while target and target not in modules:
                target = target.rpartition(".")[0]
            needed.add(target)
    return needed - {name, ""}


def _reached(name: str, imports: dict[str, set[str]]) -> set[str]:
    """What a module imports, and what these import, and so on."""
    seen: set[str] = set()
    waiting = list(imports[name])
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += imports[each]
    return seen
