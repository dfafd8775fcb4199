"""The child's part of `isolate`: a request in a file to a reply in a file.

python -m edgec.toolchain.isolated REQUEST REPLY
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgec.runtime.errors import EdgecError
from edgec.runtime.files import FULL_EXIT, is_full

__all__ = ["answered", "main"]


def _describe(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.prepare import describe_file

    return describe_file(Path(arguments["source"])).to_json()


def _prepare(arguments: Mapping[str, Any]) -> Any:
    from edgec.targets import Target
    from edgec.toolchain.precision import F32, Integers, Precision
    from edgec.toolchain.prepare import prepare_file
    from edgec.toolchain.program import ProgramInfo
    from edgec.toolchain.settings import Settings

    prepared = prepare_file(
        Path(arguments["source"]),
        Path(arguments["output"]),
        ProgramInfo.from_json(arguments["info"]),
        arguments["facts"],
        Target.from_json(arguments["target"]),
        Settings.from_json(arguments["settings"]),
        integers=Integers(arguments["integers"]),
        spares=bool(arguments["spares"]),
        validate=bool(arguments["validate"]),
        f32=F32(arguments["f32"]),
        precision=Precision(arguments["precision"]),
        golden=arguments["golden"],
        identity=str(arguments["identity"]),
    )
    return {
        "seconds": dict(prepared.seconds),
        "changes": dict(prepared.changes),
        "least_precise": prepared.least_precise,
        "validated": dict(prepared.validated),
        "unvalidated": list(prepared.unvalidated),
        "kernels": None if prepared.kernels is None else prepared.kernels.to_json(),
        "tiled": dict(prepared.tiled),
        "notes": list(prepared.notes),
        "roomy": prepared.roomy,
        "bytes": prepared.bytes,
    }


def _check(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.check import run_check

    return run_check(arguments)


def _check_mesh(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.check import run_mesh_check

    return run_mesh_check(arguments)


def _device(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tuning.measure import run_device

    return run_device(arguments)


def _answers(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tuning.measure import run_answers

    run_answers(arguments)


def _compare(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tuning.measure import run_compare

    return run_compare(arguments)


def _seeded(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.seeding import run_seeded

    return run_seeded(arguments)


def _collect(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.outside import collect

    found = collect(Path(arguments["source"]), Path(arguments["pool"]))
    return {key: constant.to_json() for key, constant in found.items()}


def _move_out(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.outside import move_out

    return move_out(
        Path(arguments["source"]),
        Path(arguments["output"]),
        str(arguments["file"]),
        frozenset(arguments["keys"]),
    )


def _hold(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.held import held_bytes

    shutil.copyfile(arguments["source"], arguments["output"])
    return held_bytes(Path(arguments["source"]))


def _join_parts(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.joined_parts import join_file
    from edgec.toolchain.program import ProgramInfo

    source, output = Path(arguments["source"]), Path(arguments["output"])
    info, reason = join_file(source, output, ProgramInfo.from_json(arguments["info"]))
    return {"info": info.to_json(), "reason": reason}


def _open_channels(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.channels import open_channels

    return open_channels(Path(arguments["source"]), Path(arguments["output"]))


def _part_weights(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.parted_weights import part_weights

    source, output = Path(arguments["source"]), Path(arguments["output"])
    return part_weights(source, output, most=int(arguments["most"]))


def _narrow_bindings(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.narrow_bindings import narrow_bindings

    source, output = Path(arguments["source"]), Path(arguments["output"])
    return narrow_bindings(source, output, most=int(arguments["most"]))


def _halve(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.half_weights import halve

    halved = halve(
        Path(arguments["source"]), Path(arguments["output"]), widens=bool(arguments["widens"])
    )
    return {"size": halved.size, "widened": halved.widened}


def _embed(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.embedding import embed_file
    from edgec.toolchain.program import ProgramInfo

    return embed_file(
        Path(arguments["source"]),
        Path(arguments["output"]),
        Path(arguments["weights"]),
        ProgramInfo.from_json(arguments["info"]),
    ).to_json()


def _write_shaders(arguments: Mapping[str, Any]) -> Any:
    from edgec.targets import Target
    from edgec.toolchain.webgpu import write_shaders

    return write_shaders(
        Path(arguments["source"]),
        Path(arguments["output"]),
        Target.from_json(arguments["target"]),
    )


def _add_words(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.wordwise import add_words

    return add_words(Path(arguments["source"]), Path(arguments["output"]))


def _own_kernels(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.own_proofs import write_proofs

    return write_proofs(Path(arguments["source"]), Path(arguments["folder"]))


def _tap(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.tapping import tap

    return tap(Path(arguments["source"]), Path(arguments["output"]), loops=arguments["loops"])


def _write_in_place(arguments: Mapping[str, Any]) -> Any:
    from edgec.toolchain.in_place import write_in_place

    donated = {int(argument): int(result) for argument, result in arguments["donated"]}
    return write_in_place(Path(arguments["source"]), Path(arguments["output"]), donated)


_HANDLERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "describe": _describe,
    "prepare": _prepare,
    "check": _check,
    "check_mesh": _check_mesh,
    "device": _device,
    "answers": _answers,
    "compare": _compare,
    "seeded": _seeded,
    "collect": _collect,
    "move_out": _move_out,
    "halve": _halve,
    "hold": _hold,
    "open_channels": _open_channels,
    "narrow_bindings": _narrow_bindings,
    "part_weights": _part_weights,
    "join_parts": _join_parts,
    "embed": _embed,
    "write_shaders": _write_shaders,
    "add_words": _add_words,
    "own_kernels": _own_kernels,
    "tap": _tap,
    "write_in_place": _write_in_place,
}


def answered(task: str, arguments: Mapping[str, Any]) -> Any:
    """The result of a task, in this process.

    Raises:
        EdgecError: what the task raises.
    """
    return _HANDLERS[task](arguments)


def main(request: Path, reply: Path) -> None:
    """The child: answer one request; where no file can be written, by its exit code."""
    try:
        _answer(request, reply)
    except OSError as error:
        if is_full(error):
            sys.exit(FULL_EXIT)
        raise


def _answer(request: Path, reply: Path) -> None:
    value = json.loads(request.read_text())
    answer: dict[str, Any]
    try:
        answer = {"result": answered(value["task"], value["arguments"])}
    except EdgecError as error:
        answer = {
            "error": {
                "code": error.code,
                "what": error.what,
                "where": error.where,
                "hint": error.hint,
                "log": error.log,
            }
        }
    reply.write_text(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
