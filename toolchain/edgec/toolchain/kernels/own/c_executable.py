"""A kernel in C as an executable of a module: MLIR that calls the function of an object file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["c_executable"]

_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}


def c_executable(
    function: str,
    file: Path,
    target: str,
    groups: int,
    reads: Sequence[tuple[int, str]],
    writes: Sequence[tuple[int, str]],
) -> str:
    """The executable's text, called `@NAME`.

    Args:
        function: what the object file defines; it takes addresses and the number of its group.
        file: the object file.
        target: the executables that it fits, as the compiler names them.
        groups: how many workgroups there are.
        reads: elements and type of each array that is read.
        writes: likewise, of each that is written.
    """
    bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * len(reads)
    bindings += ["#hal.pipeline.binding<storage_buffer>"] * len(writes)
    layout = f"#hal.pipeline.layout<bindings = [{', '.join(bindings)}]>"
    arrays = [*reads, *writes]
    indices = ", ".join(["index"] * (len(arrays) + 1))
    return "\n".join(
        (
            "hal.executable.source private @NAME <objects = <{",
            f'  #hal.executable.target<"llvm-cpu", "{target}"> = [#hal.executable.object<',
            f"    {{path = {json.dumps(str(file))}}}>]}}>> {{",
            f"  hal.executable.export public @NAME ordinal(0) layout({layout})",
            "      count(%device: !hal.device) -> (index, index, index) {",
            f"    %groups = arith.constant {groups} : index",
            "    %one = arith.constant 1 : index",
            "    hal.return %groups, %one, %one : index, index, index",
            "  }",
            "  builtin.module {",
            f"    func.func private @{function}({indices}) attributes {{hal.import.static}}",
            "    func.func @NAME() {",
            *(f"      {line}" for line in _body(function, layout, arrays)),
            "      return",
            "    }",
            "  }",
            "}",
        )
    )


def _body(function: str, layout: str, arrays: Sequence[tuple[int, str]]) -> Iterator[str]:
    """The address of each array's first element, and the call."""
    addresses = []
    yield "%start = arith.constant 0 : index"
    yield "%group = hal.interface.workgroup.id[0] : index"
    for number, (size, kind) in enumerate(arrays):
        memory = f"memref<{size}x{kind}>"
        yield (
            f"%m{number} = hal.interface.binding.subspan layout({layout}) binding({number}) "
            f"alignment(64) offset(%start) : {memory}"
        )
        yield (
            f"%base{number}, %offset{number}, %size{number}, %step{number} = "
            f"memref.extract_strided_metadata %m{number} : "
            f"{memory} -> memref<{kind}>, index, index, index"
        )
        yield (
            f"%first{number} = memref.extract_aligned_pointer_as_index %m{number} : "
            f"{memory} -> index"
        )
        yield f"%width{number} = arith.constant {_BYTES[kind]} : index"
        yield f"%bytes{number} = arith.muli %offset{number}, %width{number} : index"
        yield f"%address{number} = arith.addi %first{number}, %bytes{number} : index"
        addresses.append(f"%address{number}")
    indices = ", ".join(["index"] * (len(arrays) + 1))
    yield f"func.call @{function}({', '.join([*addresses, '%group'])}) : ({indices}) -> ()"
