"""A function with a dynamic batch as one that goes through it in parts of fixed size.

Kernels of edgec's own are for fixed sizes. Where each example is computed by itself, as it is in
nearly every network, a batch of any size is a loop over some examples at a time and a second one
over those that are left, and both bodies are programs of fixed sizes. Each is what the framework
itself gives for that size, so all frameworks come to it by the same road, and importers that
cannot write a model down with open sizes need not.

On GPUs the host goes through such a loop and waits once a turn. On an H200 a network of three
convolutions takes 2.0, 3.3 and 3.7 ms for 1, 8 and 64 images and 2.0, 3.2 and 3.2 with open sizes,
a ResNet-18 of three quarters its width 3.7, 7.8 and 40.9 and 5.1, 9.7 and 54.1 (arrays of NumPy in
and out). An export has two sizes more to trace. Where the open dimension is not the first of each
input, as the length of a text, it is tried only where that is asked for.
"""

import io
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgec.exporters.batches.fixed import Fixed, multiplies, open_dims, roles_of, together
from edgec.exporters.bundle import Bundle
from edgec.exporters.dynamic import CHUNK
from edgec.exporters.frameworks import Framework
from edgec.exporters.traced import TracedCall, TracedFunction
from edgec.runtime.signature import Dim
from edgec.toolchain.batches.marks import Batch, Mark, NotByExample
from edgec.toolchain.program import Dialect, Input, Role

if TYPE_CHECKING:
    from edgec.toolchain.batches.compare import Compared
    from edgec.toolchain.batches.write import Body

__all__ = ["chunked", "leads"]

_LOG = logging.getLogger("edgec.exporters")


def chunked(
    traced: TracedFunction,
    bundle: Bundle,
    framework: Framework,
    chunk: int | None,
    *,
    alone: bool = False,
) -> TracedFunction | None:
    """The function as such a loop, which is said; None for what multiplies nothing.

    Args:
        traced: a function with dynamic dimensions.
        bundle: what was traced.
        framework: whose it is.
        chunk: as for `in_fixed_sizes`, but not 0.
        alone: there is no other form of it, so it becomes one whatever it multiplies.

    Raises:
        NotByExample: it cannot be one.
    """
    dims = open_dims(traced)
    if len(dims) > 1:
        raise NotByExample(f"{' and '.join(dims)} are open at once")
    (dim,) = dims.values()
    size = CHUNK if chunk is None else chunk
    size = size if dim.maximum is None else min(size, dim.maximum)
    made = _Chunks(traced, bundle, framework, alone=alone).made(size)
    if made is not None:
        _LOG.warning(
            "%s computes %d of %s at a time%s: --chunk=N takes another number%s",
            traced.signature.name,
            size,
            dim.name,
            ", then what is left one by one" if size > 1 else "",
            "" if alone else ", --chunk=0 all at once",
        )
    return made


def leads(traced: TracedFunction) -> bool:
    """Whether the open dimension is the first of each input that has it."""
    return not any(
        isinstance(size, Dim) for spec in traced.signature.inputs for size in spec.shape[1:]
    )


class _Chunks(Fixed):
    def __init__(
        self, traced: TracedFunction, bundle: Bundle, framework: Framework, *, alone: bool
    ) -> None:
        super().__init__(traced, bundle, framework)
        self.alone = alone

    def made(self, size: int) -> TracedFunction | None:
        """The loop; None for what multiplies nothing."""
        from iree.compiler import ir

        from edgec.toolchain.batches.plain import plain
        from edgec.toolchain.batches.write import Through, write_main

        traces = [self.program(size)]
        with ir.Context() as context, ir.Location.unknown():
            modules = [plain(traces[0].module, context)]
            if not self.alone and not multiplies(modules[0]):
                return None
            traces.append(self.program(1 if size > 1 else 2))
            modules.append(plain(traces[1].module, context))
            found = self._compared(modules, size)
            marks = self._checked(found, traces[0])
            results = [mark for mark in found.results if mark is not None]
            if len(results) != len(found.results):
                raise NotByExample("an output is the same for all examples")
            used = list(zip(traces, modules, (size, 1), strict=True))[: 2 if size > 1 else 1]
            roles = roles_of(self.traced, [trace for trace, _, _ in used])
            merged = ir.Module.create()
            bodies = [
                _moved(merged, module, examples, [roles.index(role) for role in trace.arguments])
                for trace, module, examples in used
            ]
            write_main(
                merged,
                Through(
                    kinds=[self._kind(number, role, bodies) for number, role in enumerate(roles)],
                    marks=[marks.get(r.index) if isinstance(r, Input) else None for r in roles],
                    results=results,
                ),
                bodies,
            )
            merged.operation.verify()
            buffer = io.BytesIO()
            merged.operation.write_bytecode(buffer)
        return replace(
            self.traced,
            calls=(*self.traced.calls, *self._more_calls(size)),
            module=buffer.getvalue(),
            dialect=Dialect.STABLEHLO,
            kept="",
            arguments=tuple(roles),
            results=traces[0].results,
            parameters=together(trace.parameters for trace, _, _ in used),
            constants=together(trace.constants for trace, _, _ in used),
        )

    def _compared(self, modules: Sequence[Any], size: int) -> "Compared":
        """What counts examples; of one example programs may be simpler, so two more are asked."""
        from edgec.toolchain.batches.compare import compared
        from edgec.toolchain.batches.plain import plain

        try:
            return compared(modules[0], modules[1], Batch(one=size, other=1 if size > 1 else 2))
        except NotByExample:
            if size == 1:
                raise
            third = plain(self.program(size + 1).module, modules[0].context)
            return compared(modules[0], third, Batch(one=size, other=size + 1))

    def _more_calls(self, size: int) -> tuple[TracedCall, ...]:
        """A golden call that goes through all of the loop, where there is none yet.

        Without another form of the function nothing else was run, so the fewest are, too.
        """
        (dim,) = open_dims(self.traced).values()
        known = self.known()
        wanted = [size + 1 if dim.maximum is None else min(size + 1, dim.maximum)]
        if self.alone:
            wanted.append(max(1, dim.minimum))
        missing = [n for n in wanted if n not in known and (self.alone or n > max(known))]
        return self.calls(missing)

    def _checked(self, found: "Compared", trace: TracedFunction) -> dict[int, Mark]:
        """The mark of each input that counts examples, by its number."""
        marks: dict[int, Mark] = {}
        for role, mark in zip(trace.arguments, found.arguments, strict=True):
            if isinstance(role, Input):
                shape = self.traced.signature.inputs[role.index].shape
                axes = [axis for axis, size in enumerate(shape) if isinstance(size, Dim)]
                if axes != ([] if mark is None else [mark.axis]):
                    raise NotByExample("an input has it on several axes")
                if mark is not None:
                    marks[role.index] = mark
            elif mark is not None:
                raise NotByExample("a weight changes with the batch")
        return marks

    def _kind(self, number: int, role: Role, bodies: Sequence["Body"]) -> Any:
        """The type of an argument of the loop: dynamic where it is in the signature."""
        from iree.compiler import ir

        if not isinstance(role, Input):
            return next(
                kind
                for body in bodies
                for own, kind in zip(body.arguments, body.kinds[0], strict=True)
                if own == number
            )
        spec = self.traced.signature.inputs[role.index]
        open_ = ir.ShapedType.get_dynamic_size()
        return ir.RankedTensorType.get(
            [open_ if isinstance(size, Dim) else size for size in spec.shape],
            ir.Type.parse(spec.dtype.mlir),
        )


def _moved(merged: Any, module: Any, examples: int, arguments: Sequence[int]) -> "Body":
    """The functions of a module under names of their own in another."""
    from iree.compiler import ir

    from edgec.toolchain.batches.write import Body
    from edgec.toolchain.ir.functions import functions

    for name, function in functions(module).items():
        new = f"{'body' if name == 'main' else name}_of_{examples}"
        ir.SymbolTable.replace_all_symbol_uses(name, new, module.operation)
        ir.SymbolTable.set_symbol_name(function, new)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for op in module.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(merged.body))
    name = f"body_of_{examples}"
    return Body(name=name, examples=examples, function=functions(merged)[name], arguments=arguments)
