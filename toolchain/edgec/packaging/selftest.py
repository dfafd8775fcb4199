"""Golden calls to a package's test of itself: their numbers in a file, and what is asked of each.

`selftest/selftest.bin` holds inputs and answers one after the other, each at a multiple of 64
bytes; `selftest.json` beside it says what they are. A test calls in this order on a model that was
just opened, since state carries on from call to call.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.packaging.plan import Plan
from edgec.runtime import DType, GoldenCall, Signature, TensorSpec, Tolerance

__all__ = ["FOLDER", "TestCall", "TestTensor", "self_test", "write_self_test"]

FOLDER = "selftest"
"""The folder in the package; nothing in it goes into an app."""

_ALIGNMENT = 64
_MOST = 32 << 20
"""Bytes of numbers beyond which no call more is taken."""


@dataclass(frozen=True, kw_only=True)
class TestTensor:
    """One input or answer.

    Attributes:
        spec: what the signature says of it.
        value: its numbers.
        at: where they begin in the file.
        absolute: what a value may be off by; 0 for inputs.
        relative: by what part of its size on top.
    """

    spec: TensorSpec
    value: np.ndarray
    at: int
    absolute: float = 0.0
    relative: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As `selftest.json` has it."""
        return {
            "name": self.spec.name,
            "dtype": self.spec.dtype.value,
            "shape": list(self.value.shape),
            "at": self.at,
            "bytes": self.value.nbytes,
            "absolute": self.absolute,
            "relative": self.relative,
        }


@dataclass(frozen=True, kw_only=True)
class TestCall:
    """One golden call."""

    signature: Signature
    inputs: tuple[TestTensor, ...]
    outputs: tuple[TestTensor, ...]


def self_test(plan: Plan) -> tuple[TestCall, ...]:
    """The calls of a package's test: the golden ones in their order, as far as they are small."""
    calls: list[TestCall] = []
    at = 0
    for call in plan.golden.calls if plan.golden is not None else ():
        signature = plan.signatures.get(call.signature)
        size = sum(value.nbytes for value in (*call.inputs, *call.outputs))
        if signature is None or at + size > _MOST:
            break
        tensors = list(_tensors(signature, call, at, plan.tolerance))
        at = _aligned(tensors[-1].at + tensors[-1].value.nbytes) if tensors else at
        count = len(call.inputs)
        calls.append(
            TestCall(
                signature=signature,
                inputs=tuple(tensors[:count]),
                outputs=tuple(tensors[count:]),
            )
        )
    return tuple(calls)


def write_self_test(plan: Plan) -> tuple[TestCall, ...]:
    """Write the numbers and what they are into the package; nothing where there are none."""
    calls = self_test(plan)
    if not calls:
        return calls
    value = {
        "schema": 1,
        "calls": [
            {
                "function": call.signature.name,
                "inputs": [tensor.to_json() for tensor in call.inputs],
                "outputs": [tensor.to_json() for tensor in call.outputs],
            }
            for call in calls
        ],
    }
    plan.write(f"{FOLDER}/selftest.json", json.dumps(value, indent=1) + "\n")
    with (plan.folder / FOLDER / "selftest.bin").open("wb") as stream:
        for call in calls:
            for tensor in (*call.inputs, *call.outputs):
                stream.write(bytes(tensor.at - stream.tell()))
                stream.write(np.ascontiguousarray(tensor.value).tobytes())
    return calls


def _tensors(
    signature: Signature, call: GoldenCall, at: int, tolerance: Tolerance | None
) -> Iterator[TestTensor]:
    for spec, value in zip(signature.inputs, call.inputs, strict=True):
        yield TestTensor(spec=spec, value=value, at=at)
        at = _aligned(at + value.nbytes)
    for number, (spec, value) in enumerate(zip(signature.outputs, call.outputs, strict=True)):
        allowed = tolerance or Tolerance.of(DType.of(value.dtype))
        if call.within and tolerance is None:
            allowed = replace(allowed, absolute=max(allowed.absolute, call.within[number]))
        absolute, relative = allowed.limits(value)
        yield TestTensor(spec=spec, value=value, at=at, absolute=absolute, relative=relative)
        at = _aligned(at + value.nbytes)


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT


def sizes_of(call: TestCall) -> Mapping[str, int]:
    """The sizes that a call chooses, by the names of the dimensions."""
    return {
        dim.name: size
        for tensor in call.inputs
        for dim, size in zip(tensor.spec.shape, tensor.value.shape, strict=True)
        if not isinstance(dim, int)
    }
