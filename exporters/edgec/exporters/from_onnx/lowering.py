"""An ONNX model and the shapes of its inputs to a function of MLIR and its weights."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.exporters.from_onnx.decompose import decomposed
from edgec.exporters.from_onnx.facts import initializers
from edgec.exporters.from_onnx.functions import expand, functions_among
from edgec.exporters.from_onnx.loop_forms import Part
from edgec.exporters.from_onnx.loops import cut
from edgec.exporters.from_onnx.lower import RefusedOperations, lower
from edgec.exporters.from_onnx.on_the_way import located
from edgec.exporters.from_onnx.prepare import inferred, prepare
from edgec.exporters.from_onnx.recurrent_steps import scanned
from edgec.exporters.from_onnx.scopes import hoist_weights
from edgec.exporters.from_onnx.sequences import sequence_left
from edgec.exporters.from_onnx.unroll import unrolled
from edgec.exporters.lift_weights import SMALLEST
from edgec.runtime.errors import ExportError, ProgramError, UnsupportedOp
from edgec.toolchain.program import Dialect, Input, Parameter, Role

__all__ = ["Lowered", "lowered_model"]

Shapes = Mapping[str, Sequence[int | str]]


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A prepared model, what its inputs are, and its code."""

    model: Any
    roles: tuple[Role, ...]
    weights: dict[str, np.ndarray]
    code: bytes
    dialect: Dialect


def lowered_model(
    model: Any,
    shapes: Shapes,
    positions: Mapping[str, int],
    dialect: Dialect,
    *,
    numbers: Mapping[str, int],
    name: str,
) -> Lowered:
    """The model in a dialect.

    Operations that the importer refuses are replaced by what ONNX itself defines them as, where it
    does: most of the newer ones are functions of older ones.

    Args:
        model: an `onnx.ModelProto`.
        shapes: the shape of each input; a string names a dimension that stays unknown.
        positions: which input of the signature each of them is.
        dialect: what to lower to; for StableHLO all sizes are known.
        numbers: the number of the node that gives a value, where values are kept.
        name: the signature, for messages.

    Raises:
        RefusedOperations: an operation has no lowering.
        ExportError: the model is refused.
    """
    own = frozenset(tensor.name for tensor in model.graph.initializer)
    return _Work(dialect, numbers, name, own).lowered(model, shapes, positions)


class _Work:
    """One model's lowering; equal bodies of loops are lowered once."""

    def __init__(
        self, dialect: Dialect, numbers: Mapping[str, int], name: str, own: frozenset[str]
    ) -> None:
        self.own = own
        self.dialect = dialect
        self.numbers = numbers
        self.name = name
        self.bodies: dict[bytes, bytes] = {}

    def lowered(self, model: Any, shapes: Shapes, positions: Mapping[str, int] | None) -> Lowered:
        """The model; without positions all constants stay in it."""
        tried: set[str] = set()
        while True:
            prepared = prepare(model, shapes)
            if self.dialect is Dialect.STABLEHLO:
                if scanned(prepared):
                    prepared = inferred(prepared)
                hoist_weights(prepared)
            roles: tuple[Role, ...] = ()
            weights: dict[str, np.ndarray] = {}
            if positions is not None:
                roles, weights = _lift(prepared, positions, self.own)
            try:
                self.refuse_sequences(prepared)
                self.refuse_open_axes(prepared)
                code = self.code(located(prepared, self.numbers))
            except RefusedOperations as refused:
                kinds = refused.operations - tried
                if not kinds and (refused.operations or tried):
                    raise
                tried |= kinds or {""}
                model = _rewritten(model, shapes, kinds)
                if model is None:
                    raise
                continue
            return Lowered(
                model=prepared, roles=roles, weights=weights, code=code, dialect=self.dialect
            )

    def refuse_sequences(self, model: Any) -> None:
        """Refuse what is left of sequences, which the importer often gets wrong.

        Raises:
            RefusedOperations: there is something; a loop may become what says how long they are.
        """
        node = sequence_left(model)
        if node is None:
            return
        error = UnsupportedOp(
            f"{self.name} uses ONNX' {node.op_type}, and how many tensors its sequence holds, or "
            "where, is not known before it runs",
            where=f"node {node.name or node.output[0]}",
            hint="export the model again so that it takes and gives tensors, not lists of them",
        )
        kinds = {each.op_type for each in model.graph.node}
        raise RefusedOperations(error, frozenset({node.op_type, *(kinds & {"Loop"})}))

    def refuse_open_axes(self, model: Any) -> None:
        """Refuse reductions along axes that an input says; of nothing they come out wrong.

        Raises:
            RefusedOperations: there is one.
        """
        known = initializers(model).keys() | {
            node.output[0] for node in model.graph.node if node.op_type == "Constant"
        }
        for node in model.graph.node:
            axes = node.input[1] if len(node.input) > 1 else ""
            if not node.op_type.startswith("Reduce") or not axes or axes in known:
                continue
            error = UnsupportedOp(
                f"{self.name} uses ONNX' {node.op_type} along axes that are not known before it "
                "runs",
                where=f"node {node.name or node.output[0]}",
                hint="export the model again with constant axes",
            )
            raise RefusedOperations(error, frozenset({node.op_type}))

    def code(self, model: Any) -> bytes:
        """The code of a prepared model, its loops and branches written as such."""
        if self.dialect is not Dialect.STABLEHLO:
            return lower(model, self.dialect, name=self.name)
        found = cut(model)
        code = lower(found.model, self.dialect, name=self.name)
        if not found.parts:
            return code
        from edgec.exporters.from_onnx.loop_code import written
        from edgec.toolchain.ir.joining import Piece, joined

        pieces = [
            Piece(
                name=part.node.name or part.node.output[0],
                takes=len(part.takes),
                gives=len(part.gives),
                bodies=[self.body(part, body) for body in part.bodies],
                write=partial(written, part),
            )
            for part in found.parts
        ]
        try:
            return joined(code, pieces)
        except ProgramError as error:
            raise _refused(error.what, {part.node.op_type for part in found.parts}) from error

    def body(self, part: Part, body: Any) -> bytes:
        """The code of a body.

        Raises:
            RefusedOperations: it has none; the kind that is refused is the loop's.
        """
        key: bytes = body.SerializeToString(deterministic=True)
        if key not in self.bodies:
            shapes = {
                v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
                for v in body.graph.input
            }
            try:
                self.bodies[key] = self.lowered(body, shapes, None).code
            except RefusedOperations as refused:
                raise RefusedOperations(refused.error, frozenset({part.node.op_type})) from refused
            except ExportError as error:
                raise _refused(error.what, {part.node.op_type}) from error
        return self.bodies[key]


def _refused(why: str, kinds: Collection[str]) -> RefusedOperations:
    error = UnsupportedOp(why, hint="export the model again without this loop or branch")
    return RefusedOperations(error, frozenset(kinds))


def _rewritten(
    model: Any, shapes: Mapping[str, Sequence[int | str]], kinds: Collection[str]
) -> Any:
    """The model without operations of these kinds (all, if none); None where no way is known."""
    functions = functions_among(model, kinds)
    written = expand(model, functions) if functions else None
    if written is not None:
        return written
    prepared = prepare(model, shapes)
    # The importer, which has no Scan, may name what comes behind one in its place.
    changed = unrolled(prepared, {*kinds, "Scan"} if kinds else kinds)
    changed |= decomposed(prepared, kinds)
    return prepared if changed else None


def _lift(
    model: Any, inputs: Mapping[str, int], own: Collection[str]
) -> tuple[tuple[Role, ...], dict[str, np.ndarray]]:
    """Turn large initialisers into graph inputs; the role of each input, and the weights.

    One number over and over that is not the file's own, as a first state worked out from the
    batch, stays a constant.
    """
    from onnx import helper

    graph = model.graph
    weights: dict[str, np.ndarray] = {}
    for name, value in initializers(model).items():
        if value.nbytes < SMALLEST or value.dtype.kind not in "fV":
            continue
        if name not in own and _is_one_number(value):
            continue
        weights[name] = value
    for tensor in [t for t in graph.initializer if t.name in weights]:
        graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
        graph.initializer.remove(tensor)
    roles: list[Role] = []
    constants = {t.name for t in graph.initializer}
    for value in graph.input:
        if value.name in constants:
            continue
        roles.append(
            Parameter(name=value.name) if value.name in weights else Input(index=inputs[value.name])
        )
    return tuple(roles), weights


def _is_one_number(value: np.ndarray) -> bool:
    flat = value.reshape(-1)
    return bool((flat == flat[0]).all())
