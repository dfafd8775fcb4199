"""A variant of a Triton kernel to PTX, by Triton's compiler and without a GPU."""

import functools
import importlib
import importlib.metadata
import importlib.util
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.kernels.cuda.c_compiler import find_in_c
from edgec.toolchain.kernels.cuda.variants import FAMILIES, Constant, Variant, sources_digest
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined

__all__ = ["TritonCompiler", "compile_function", "compile_ir", "has_triton", "tidy"]

_TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}
_PACKAGE = "edgec.toolchain.kernels.cuda.triton"
_DIVISIBLE = "tt.divisibility"


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed here (`edgec[cuda]`)."""
    return importlib.util.find_spec("triton") is not None


class TritonCompiler:
    """Where kernels come from when Triton is here: edgec's cache, or its compiler.

    Attributes:
        folds: sizes may become constants, since any variant can be made.
    """

    folds = True

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache or Cache.default()
        self._version = importlib.metadata.version("triton")

    def find(self, variant: Variant) -> Binary | Declined:
        """The kernel, compiled if it is new."""
        if variant.is_c:
            return find_in_c(variant, self._cache)
        key = key_of("triton", self._version, sources_digest(), variant.key)
        entry = self._cache.get(key)
        if entry is not None:
            return _binary(variant, entry.payload.read_bytes(), entry.note)
        from triton.errors import TritonError

        try:
            ptx, facts = compile_variant(variant)
        except TritonError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Declined(reason=f"Triton refused {variant.name}: {lines[-1]}")
        self._cache.put(key, ptx, facts)
        return _binary(variant, ptx, facts)


def _binary(variant: Variant, data: bytes, facts: Mapping[str, int]) -> Binary:
    return Binary(
        name=variant.symbol,
        data=data,
        threads=facts["threads"],
        shared=facts["shared"],
        scratch=facts["scratch"],
    )


def compile_variant(variant: Variant) -> tuple[bytes, dict[str, int]]:
    """The PTX of a variant and the facts that its `Binary` needs."""
    function = getattr(importlib.import_module(f"{_PACKAGE}.{variant.source}"), variant.source)
    return compile_function(
        function,
        types=dict(variant.types),
        multiples=dict(variant.multiples),
        constants=dict(variant.constants),
        capability=FAMILIES[variant.family].capability,
        ptx_version=variant.ptx_version,
        warps=variant.warps,
        stages=variant.stages,
        entry=f"edgec_{variant.symbol}",
    )


def compile_function(
    function: Any,
    *,
    types: Mapping[str, str],
    multiples: Mapping[str, int],
    constants: Mapping[str, Constant],
    capability: int,
    ptx_version: int,
    warps: int,
    stages: int,
    entry: str,
) -> tuple[bytes, dict[str, int]]:
    """The PTX of a Triton function, and its threads, shared bytes and scratch bytes.

    Args:
        function: what `@triton.jit` made.
        types: of the parameters that a call gives, by name, in the order of the call.
        multiples: what an integer is a known multiple of.
        constants: parameters that are compiled in.
        capability: of the GPU, as Triton names it (90).
        ptx_version: as 80 for 8.0.
        warps: of 32 threads, in one program.
        stages: how many steps ahead a loop copies.
        entry: what its entry point is called.

    Raises:
        ValueError: it takes other parameters, or memory that nobody gives it.
    """
    from triton.compiler import ASTSource

    order = list(function.arg_names)
    given = [name for name in order if name in types]
    hints = {
        (order.index(name),): [[_DIVISIBLE, 16 if types[name][0] == "*" else multiples[name]]]
        for name in given
        if types[name][0] == "*" or name in multiples
    }
    source = ASTSource(
        fn=function,
        signature={name: _triton_type(types.get(name)) for name in order},
        constexprs=dict(constants),
        attrs=hints,
    )
    made, facts = _ptx(
        lambda target, options, backend, context: source.make_ir(
            target,
            options,
            backend.get_codegen_implementation(options),
            backend.get_module_map(),
            context,
        ),
        capability,
        {"num_warps": warps, "num_stages": stages, "ptx_version": ptx_version},
    )
    wanted = [name for name, kind in types.items() if kind[0] == "*"]
    wanted += ["scratch"] * bool(facts["scratch"])
    wanted += [name for name, kind in types.items() if kind[0] != "*"]
    return tidy(made, function.__name__, entry, given, wanted).encode(), facts


def compile_ir(
    text: str,
    *,
    function: str,
    arrays: int,
    capability: int,
    ptx_version: int,
    warps: int,
    stages: int,
    entry: str,
) -> tuple[bytes, dict[str, int]]:
    """As `compile_function`, of a module in Triton's own MLIR, whose parameters are arrays.

    Args:
        text: the module.
        function: the kernel's name in it.
        arrays: how many it takes.
        capability, ptx_version, warps, stages, entry: as for `compile_function`.

    Raises:
        ValueError: it is no such module, takes other parameters, or memory that nobody gives it.
    """
    from triton._C.libtriton import ir

    def read(target: Any, options: Any, backend: Any, context: Any) -> Any:
        with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
            path = Path(folder, "kernel.ttir")
            path.write_text(text, encoding="utf-8")
            try:
                made = ir.parse_mlir_module(str(path), context)
            except RuntimeError as error:
                raise ValueError(f"Triton cannot read the kernel: {error}") from error
        made.context = context
        return made

    options = {"num_warps": warps, "num_stages": stages, "ptx_version": ptx_version}
    made, facts = _ptx(read, capability, options)
    names = [f"a{number}" for number in range(arrays)]
    wanted = names + ["scratch"] * bool(facts["scratch"])
    return tidy(made, function, entry, names, wanted).encode(), facts


def _ptx(
    make: Callable[[Any, Any, Any, Any], Any], capability: int, chosen: Mapping[str, int]
) -> tuple[str, dict[str, int]]:
    """The PTX of what `make` gives for a target, options, backend and context; and its facts."""
    from triton import knobs
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler import make_backend

    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    options = backend.parse_options(dict(chosen))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    steps: dict[str, Any] = {}
    # What `triton.compile` does, without its own cache and without the assembler at the end, which
    # would take as long again: the driver has one, too.
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True
        made = make(target, options, backend, context)
        backend.add_stages(steps, options, Language.TRITON)
        metadata: dict[str, Any] = {"target": target, **options.__dict__}
        for name, step in steps.items():
            made = step(made, metadata)
            if name == "ptx":
                break
    facts = {"threads": 32 * metadata["num_warps"], "shared": metadata["shared"]}
    facts["scratch"] = metadata.get("global_scratch_size") or 0
    return made, facts


def _triton_type(kind: str | None) -> str:
    if kind is None:
        return "constexpr"
    plain = kind.removeprefix("*")
    return "*" * (plain != kind) + _TYPES.get(plain, plain)


def tidy(ptx: str, function: str, entry: str, given: list[str], wanted: list[str]) -> str:
    """PTX with its parameters in the order that the runtime gives them, and named `entry`.

    Args:
        ptx: as Triton wrote it; after what is given, it takes scratch memory and the profiler's.
        function: the kernel's name in it.
        entry: its name afterwards.
        given: the kernel's parameters in the order of its source.
        wanted: what the runtime passes, in its order: `given`, with `scratch` if it is used.

    Raises:
        ValueError: the parameters are others.
    """
    head, start, rest = ptx.partition(f".visible .entry {function}(")
    declared, close, body = rest.partition(")")
    lines = re.findall(rf"\.param [^,]*?\b{function}_param_\d+\b", declared)
    names = [*given, "scratch", "profile"]
    if not start or len(lines) != len(names):
        raise ValueError(f"{entry} has {len(lines)} parameters instead of {len(names)}")
    by_name = dict(zip(names, lines, strict=True))
    dropped = [line.split()[-1] for name, line in by_name.items() if name not in wanted]
    if any(re.search(rf"\b{name}\b", body) for name in dropped):
        raise ValueError(f"{entry} uses memory that nobody gives it")
    chosen = ",\n".join(f"\t{by_name[name]}" for name in wanted)
    text = f"{head}.visible .entry {entry}(\n{chosen}\n{close}{body}"
    return re.sub(r"[ \t]*//.*", "", text)
