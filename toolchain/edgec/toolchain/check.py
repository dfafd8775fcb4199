"""A module proves itself: its golden calls run on its own device, in a child, and are compared."""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgec.runtime import Device, GoldenResult, Tolerance, check_golden, load, mark_checked
from edgec.runtime.device import device_choices
from edgec.runtime.errors import (
    DeviceError,
    DeviceMissing,
    EdgecError,
    FileError,
    ModuleMismatch,
    WrongAnswer,
)
from edgec.runtime.fitness import driver_uri
from edgec.runtime.golden import Golden
from edgec.runtime.mesh.proving import check_mesh_golden
from edgec.runtime.mesh.running import load_mesh
from edgec.runtime.module import CHECK_WIDTH
from edgec.runtime.spirv import asks_of_subgroups, capabilities
from edgec.targets import Target
from edgec.toolchain import isolate
from edgec.toolchain.cache import key_of

__all__ = [
    "Elsewhere",
    "Outcome",
    "check_mesh",
    "check_module",
    "run_check",
    "run_mesh_check",
    "unchecked",
]

Elsewhere = Callable[[Path, Golden, Path | None, Tolerance | None], tuple[str, GoldenResult] | None]
"""Makes golden calls of a module, with its weights file, where the target's device is not here:
what computed the answers and how they compare, or None where nothing could."""

_LOOK = 60.0
"""Seconds in which a driver says what device there is."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a check found.

    Attributes:
        text: what the module says of it, at most 64 bytes: `checked on …` or `unchecked: …`.
        proof: a key of everything the check depended on; empty when nothing was proved.
        error: the largest root mean square of an output's differences, as a part of its spread.
        note: why it ran on another runtime than the one that the device stands for, and which
            answers are ties; or empty.
    """

    text: str
    proof: str = ""
    error: float = 0.0
    note: str = ""


def unchecked(reason: str) -> Outcome:
    """An outcome that proves nothing, and why."""
    return Outcome(text=_fit("unchecked: ", reason, ""))


def check_module(
    module: Path,
    golden: Golden,
    target: Target,
    *,
    weights: Path | None,
    tolerance: Tolerance | None,
    known: Mapping[str, Any],
    advice: str,
    timeout: float,
    elsewhere: Elsewhere | None = None,
) -> Outcome:
    """Run the golden calls on the target's device and write the outcome into the module.

    Args:
        module: a module that edgec compiled.
        golden: the calls and the framework's answers.
        target: what it was compiled for.
        weights: its weights file, if it keeps them outside.
        tolerance: how far answers may be off; None for each type's default.
        known: the note of a cached module; a proof of the same answers is not repeated.
        advice: what to do where an answer is wrong.
        timeout: seconds the calls may take in all.
        elsewhere: what computes the answers where the target's device is not here.

    Raises:
        WrongAnswer: an answer is off by more than the tolerance.
        DeviceError: the device failed, or the process that ran the calls died or hung.
        FileError: no space is left.
    """
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        answers = Path(folder, "golden.npz")
        golden.save(answers)
        proof = _proof(golden, target, tolerance)
        if known.get("proof") == proof:
            return Outcome(
                text=str(known["check"]),
                proof=proof,
                error=float(known.get("error", 0.0)),
                note=str(known.get("check_note", "")),
            )
        request = {
            "module": str(module),
            "golden": str(answers),
            "weights": None if weights is None else str(weights),
            "device": driver_uri(target.driver),
            "devices": list(target.gpu.devices) if target.gpu else [],
            "only_look": False,
            "tolerance": None if tolerance is None else asdict(tolerance),
        }
        try:
            reply = _asked(request, target, timeout)
        except DeviceError:
            # If another device stood in for the target's own, its failures prove nothing.
            if not request["devices"]:
                raise
            found = _asked({**request, "only_look": True}, target, _LOOK)
            if found["own"]:
                raise
            reply = {"unchecked": f"{found['device']} here does not run it"}
    if "unchecked" in reply and elsewhere is not None:
        stood_in = elsewhere(module, golden, weights, tolerance)
        reply = reply if stood_in is None else _reply(*stood_in)
    if "unchecked" in reply:
        outcome = unchecked(reply["unchecked"])
    elif reply["problem"]:
        raise WrongAnswer(
            f"the module for {target.name} computes wrong answers on {reply['device']}: "
            f"{reply['problem']}",
            hint=advice,
        )
    else:
        text = _fit("checked on ", reply["device"], f": max abs err {reply['max_abs']:.1e}")
        outcome = Outcome(text=text, proof=proof, error=float(reply["error"]), note=reply["note"])
    mark_checked(module, outcome.text)
    return outcome


def check_mesh(
    folder: Path,
    golden: Golden,
    target: Target,
    *,
    tolerance: Tolerance | None,
    timeout: float,
) -> Outcome:
    """Run a whole program's golden calls on one device that does the work of a mesh's devices.

    Args:
        folder: a program for a mesh.
        golden: calls of the whole program, with the framework's answers.
        target: what its module was compiled for.
        tolerance: how far answers may be off; None for each type's default.
        timeout: seconds the calls may take in all.

    Raises:
        WrongAnswer: an answer is off by more than the tolerance.
        DeviceError: the device failed, or the process that ran the calls died or hung.
    """
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        answers = Path(scratch, "golden.npz")
        golden.save(answers)
        request = {
            "module": str(folder),
            "golden": str(answers),
            "device": driver_uri(target.driver),
            "tolerance": None if tolerance is None else asdict(tolerance),
        }
        reply = isolate.call(
            "check_mesh",
            request,
            subject=str(folder),
            timeout=timeout,
            died=lambda how: DeviceError(
                f"running the golden inputs on {target.driver} {how}",
                hint="try another target or -O1; --no-check keeps the program unproved",
            ),
        )
    if "unchecked" in reply:
        return unchecked(reply["unchecked"])
    if reply["problem"]:
        raise WrongAnswer(
            f"the program for several devices computes wrong answers on {reply['device']}: "
            f"{reply['problem']}",
            hint="compile it without --mesh to see whether the devices' parts are at fault",
        )
    text = _fit("checked on ", reply["device"], f": max abs err {reply['max_abs']:.1e}")
    return Outcome(text=text, error=float(reply["error"]), note=reply["note"])


def run_mesh_check(arguments: Mapping[str, Any]) -> Any:
    """The child's part: make the calls, one device for all of them."""
    tolerance = arguments["tolerance"]
    try:
        device = Device.open(arguments["device"])
    except DeviceMissing:
        return {"unchecked": f"no {arguments['device']} device here"}
    with load_mesh(arguments["module"], [arguments["device"]], simulate=True) as loaded:
        result = check_mesh_golden(
            loaded,
            Golden.load(Path(arguments["golden"])),
            None if tolerance is None else Tolerance(**tolerance),
        )
        note = "; ".join(loaded.notes)
    return _reply(_short_name(device), result, note)


def _asked(request: Mapping[str, Any], target: Target, timeout: float) -> Any:
    """What the child says."""
    return isolate.call(
        "check",
        request,
        subject=str(request["module"]),
        timeout=timeout,
        died=lambda how: DeviceError(
            f"running the golden inputs on {target.driver} {how}",
            hint="try another target or -O1; --no-check keeps the module unproved",
        ),
    )


def run_check(arguments: Mapping[str, Any]) -> Any:
    """The child's part: make the calls, and give back what differs or why nothing ran."""
    tolerance = arguments["tolerance"]
    try:
        device = Device.open(arguments["device"])
    except DeviceMissing:
        return {"unchecked": f"no {arguments['device']} device here"}
    except FileError:  # a full disk says nothing of the device
        raise
    except EdgecError as error:
        return {"unchecked": error.what}
    words = arguments["devices"]
    name = _short_name(device)
    own = not words or any(word in name.lower() for word in words)
    if arguments["only_look"]:
        return {"device": name, "own": own}
    if not own and (reason := _no_stand_in(name, Path(arguments["module"]))):
        return {"unchecked": reason}
    try:
        with load(
            arguments["module"], device=arguments["device"], weights=arguments["weights"]
        ) as loaded:
            result = check_golden(
                loaded,
                Golden.load(Path(arguments["golden"])),
                None if tolerance is None else Tolerance(**tolerance),
            )
            note = loaded.note
    except ModuleMismatch as error:
        # Not the name of a file that lives as long as the compile.
        return {"unchecked": error.what.replace(arguments["module"], "the module")}
    return _reply(name, result, note.replace(arguments["module"], "the check"))


def _reply(device: str, result: GoldenResult, note: str = "") -> dict[str, Any]:
    """What compared how, as JSON."""
    problem = ""
    if not result.ok and result.worst is not None:
        function, output, comparison = result.worst
        problem = (
            f"{output} of {function}: {comparison.problem} "
            f"(max abs err {comparison.max_abs:.1e}, max rel err {comparison.max_rel:.1e})"
        )
    return {
        "device": device,
        "max_abs": result.max_abs,
        "error": max((o.error for call in result.calls for o in call.outputs), default=0.0),
        "problem": problem,
        "note": "; ".join(filter(None, (note, _ties(result)))),
    }


def _ties(result: GoldenResult) -> str:
    """What to say of answers that differ where the framework's own rounding decides."""
    if not result.ties:
        return ""
    count = sum(output.count for call in result.calls for output in call.outputs)
    return (
        f"{result.ties} of {count} golden values differ where the model's best choices are tied "
        "up to rounding; the others are equal"
    )


def _no_stand_in(name: str, module: Path) -> str:
    """Why a device that is not the target's own proves nothing; empty where it does.

    SPIR-V means the same on every device that takes it, but for what it asks of subgroups.
    """
    if not capabilities(module):
        return f"the device here is {name}"
    return f"{name} here has other subgroups" if asks_of_subgroups(module) else ""


def _proof(golden: Golden, target: Target, tolerance: Tolerance | None) -> str:
    parts: list[str | bytes] = [driver_uri(target.driver), repr(tolerance)]
    for call in golden.calls:
        parts += [call.signature, repr(call.within)]
        for array in (*call.inputs, *call.outputs, *call.open, *call.others):
            parts += [json.dumps([str(array.dtype), *array.shape]), array.tobytes()]
    return key_of("proof", *parts)


def _short_name(device: Device) -> str:
    """`llvmpipe (LLVM 15.0.6, 256 bits)` → `llvmpipe`."""
    if device.uri in device_choices("cpu"):
        return "a CPU"
    return device.name.partition(" (")[0]


def _fit(before: str, middle: str, after: str) -> str:
    """The three as one line of printable ASCII that fits the module's field; the middle gives."""
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in middle)
    room = CHECK_WIDTH - len(before) - len(after)
    return before + (plain if len(plain) <= room else plain[: room - 2] + "..")[:room] + after
