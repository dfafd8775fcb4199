"""A case to files: its programs, its arguments and JAX's own answers. One process of JAX.

python -m benchmarks.operators.make FOLDER    reads keys from stdin, answers one line for each
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators.case import DTYPES, Case

__all__ = ["Made", "keep_made", "load_made"]

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Made:
    """The files of one case in a folder: programs, arguments and answers, and a module."""

    def __init__(self, folder: Path, key: str) -> None:
        stem = folder / key.replace("/", "--")
        self.program = stem.with_name(f"{stem.name}.mlirbc")
        self.plain = stem.with_name(f"{stem.name}.plain.mlirbc")
        self.arrays = stem.with_name(f"{stem.name}.npz")
        self.module = stem.with_name(f"{stem.name}.vmfb")
        self.note = stem.with_name(f"{stem.name}.json")


def load_made(made: Made) -> tuple[Mapping[str, Any], list[np.ndarray], list[np.ndarray]]:
    """The note of a case, its arguments and its answers."""
    note = json.loads(made.note.read_text())
    with np.load(made.arrays) as arrays:
        inputs = [arrays[f"i{n}"].view(DTYPES[kind]) for n, kind in enumerate(note["inputs"])]
        outputs = [arrays[f"o{n}"].view(DTYPES[kind]) for n, kind in enumerate(note["outputs"])]
    return note, inputs, outputs


def _make(case: Case, made: Made) -> None:
    import jax
    from jax import export

    from edgec.exporters.from_jax.lower import lower
    from edgec.runtime.errors import EdgecError

    jax.config.update("jax_enable_x64", case.wide)
    inputs, function = case.inputs(), case.function()

    def flat(*args: Any) -> Any:
        return tuple(jax.tree.leaves(function(*args)))

    jitted = jax.jit(flat)
    outputs = [np.asarray(leaf) for leaf in jitted(*inputs)]
    note: dict[str, Any] = {"refused": "", "plain_refused": ""}
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in inputs]
    try:
        lowered = lower(lambda w, s, i: flat(*i), [], [], specs, name="main")
        made.program.write_bytes(lowered.bytecode)
    except EdgecError as error:
        note["refused"] = error.what
    try:
        kept = export.export(jax.jit(flat, keep_unused=True), platforms=("cpu",))(*specs)
        made.plain.write_bytes(kept.mlir_module_serialized)
    except ValueError as error:
        note["plain_refused"] = str(error).splitlines()[0]
    keep_made(made, inputs, outputs, slack=case.slack, **note)


def keep_made(
    made: Made,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    *,
    slack: float,
    **note: Any,
) -> None:
    """Write arguments, answers and the note of a case, for `load_made`."""
    kinds: dict[str, Any] = {
        "inputs": [_NAMES[a.dtype] for a in inputs],
        "outputs": [_NAMES[a.dtype] for a in outputs],
    }
    made.note.write_text(json.dumps({**kinds, "slack": slack, **note}))
    arrays = {
        f"{letter}{n}": np.require(a, requirements="C").view(_plain(a.dtype))
        for letter, group in (("i", inputs), ("o", outputs))
        for n, a in enumerate(group)
    }
    np.savez(made.arrays, **arrays)  # type: ignore[arg-type]


def _plain(dtype: np.dtype) -> np.dtype:
    """bf16 is no type of NumPy's own files."""
    return np.dtype(np.uint16) if dtype == DTYPES["bf16"] else dtype


def main() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    from benchmarks.operators.catalogue import find_case

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for line in sys.stdin:
        key = line.strip()
        try:
            _make(find_case(key), Made(folder, key))
            answer = {"ok": True}
        except Exception as error:  # noqa: BLE001 - a case that JAX itself refuses is reported
            answer = {"ok": False, "reason": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
