"""What the fuzzer starts from besides its corpus: dispatches, golden calls, weights, texts."""

import base64
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import flatbuffers
import numpy as np
import safetensors.numpy
from iree.runtime import ParameterIndex

from edgec import toolchain
from edgec.runtime.module import GOLDEN_ATTRIBUTE
from edgec.runtime.sampled_output import SampledOutput
from edgec.runtime.seeded_calls import SeededCall, SeededCalls
from edgec.runtime.seeded_input import SeededInput
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain.text import text_form
from tests.c.bytecode import Function, Import, Program, ref
from tests.c.programs import PROGRAMS
from tests.c.saved_text import saved_texts
from tests.c.tokenizers_of_all_kinds import facts_of, tokenizer
from tests.c.vm_programs import HAND_MADE, pure_cases
from tests.c.waiting import waiting

__all__ = ["inputs"]

DEVICE = Import(name="hal.devices.get", convention="0i_r")
ALLOCATOR = Import(name="hal.device.allocator", convention="0r_r")
ALLOCATE = Import(name="hal.allocator.allocate", convention="0rIiiI_r")
CREATE = Import(name="hal.executable.create", convention="0rIrrr_r")
RECORD = Import(name="hal.command_buffer.create", convention="0riiIi_r")
DISPATCH = Import(name="hal.command_buffer.dispatch", convention="0rrIiiiICiDCiirIID_v")
FINISH = Import(name="hal.command_buffer.finalize", convention="0r_v")
EXECUTE = Import(name="hal.device.queue.execute", convention="0rIrrrI_v")
_FIXED = 0xFFFF
"""How many registers an argument outside of groups takes, as a variadic call spells it."""


def inputs() -> Iterator[tuple[str, bytes]]:
    """A name and the bytes of each; three programs and one kernel are compiled."""
    yield "dispatching", dispatching(b"static", b"fuzz\0")
    for name, data in (("hand", HAND_MADE), ("pure", tuple(pure_cases()))):
        yield name, Program(functions=[case.function for case in data]).build()
    yield "waiting", waiting()
    yield "waiting-init", waiting(in_beginning=True)
    for name, stateful in (("golden", False), ("golden-state", True)):
        yield name, proving(stateful)
    yield from _weights()
    for program in PROGRAMS:
        if program.name in ("control", "state"):
            yield program.name, _compiled(program.text, "cpu")
    yield from _texts()
    for number, text in enumerate(saved_texts()):
        yield f"saved-{number}", text
    yield "vulkan", _executable(_compiled(PROGRAMS[0].text, "vulkan:android"))
    yield "cuda", _compiled(PROGRAMS[0].text, "cuda")
    yield "cuda-kernel", cuda_executable()
    yield "cuda-dispatching", dispatching(b"cuda-nvptx-fb", cuda_executable())


def _texts() -> Iterator[tuple[str, bytes]]:
    """Forms of language models' texts, of all that they may have."""
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    for kind in ("smollm", "qwen2", "llama2"):
        form = text_form(facts_of(tokenizer(kind), template=template))
        yield f"text-{kind}", base64.b64decode(form)


def cuda_executable() -> bytes:
    """An executable for CUDA of two kernels, whose text only says that they are there."""
    entries = "".join(f".visible .entry {name}(.param .u64 a) {{ ret; }}\n" for name in ("a", "b"))
    builder = flatbuffers.Builder(1024)
    text = builder.CreateString(f".version 7.6\n.target sm_80\n.address_size 64\n{entries}")
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    modules = _offsets(builder, [builder.EndObject()])
    exports = []
    for constants, name in ((1, "a"), (0, "b")):
        spelled = builder.CreateString(name)
        builder.StartVector(8, 1, 8)
        builder.PrependUint64(0)
        bindings = builder.EndVector()
        builder.StartObject(6)
        builder.PrependUOffsetTRelativeSlot(1, spelled, 0)
        builder.Prep(4, 12)
        for size in (1, 2, 32):
            builder.PrependUint32(size)
        builder.PrependStructSlot(2, builder.Offset(), 0)
        builder.PrependUint32Slot(3, 64 * constants, 0)
        builder.PrependUint32Slot(4, constants, 0)
        builder.PrependUOffsetTRelativeSlot(5, bindings, 0)
        exports.append(builder.EndObject())
    kernels = _offsets(builder, exports)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, kernels, 0)
    builder.PrependUOffsetTRelativeSlot(1, modules, 0)
    builder.Finish(builder.EndObject())
    content = bytes(builder.Output())
    return struct.pack("<4sIQ48x", b"CDA1", 0, len(content)) + content


def _offsets(builder: flatbuffers.Builder, tables: list[int]) -> int:
    """A vector of tables."""
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


def dispatching(form: bytes, executable: bytes) -> bytes:
    """A module that runs a kernel and keeps its commands: one linked in (`fuzz_kernels.c`), or
    one of those of a GPU."""
    ask = (
        ("const.i32.zero", 0),
        ("const.i32", 1, 1),
        ("const.i64.zero", 2),
        ("const.i64", 4096, 4),
        ("const.i64", 64, 6),
        ("call", DEVICE, [0], [ref(0)]),
    )
    record = (
        *ask,
        ("call", ALLOCATOR, [ref(0)], [ref(1)]),
        ("call", ALLOCATE, [ref(1), 2, 0, 0, 4], [ref(2)]),
        ("const.ref.rodata", form, ref(3)),
        ("const.ref.rodata", executable, ref(4)),
        ("call", CREATE, [ref(0), 2, ref(3), ref(4), ref(7)], [ref(5)]),
        ("call", RECORD, [ref(0), 0, 0, 2, 0], [ref(6)]),
        (
            *("call.variadic", DISPATCH, [*([_FIXED] * 7), 1, 1]),
            *([ref(6), ref(5), 2, 1, 1, 1, 2, 1, 0, 0, ref(2), 2, 6], []),
        ),
        ("call", FINISH, [ref(6)], []),
        ("global.store.ref", 0, "!hal.command_buffer", ref(6)),
        ("return", []),
    )
    replay = (
        *ask,
        ("global.load.ref", 0, "!hal.command_buffer", ref(6)),
        ("call", EXECUTE, [ref(0), 2, ref(5), ref(4), ref(6), 2], []),
        ("return", []),
    )
    functions = [
        Function(name=name, convention="0v_v", body=[("block", "start"), *body])
        for name, body in (("record", record), ("replay", replay))
    ]
    return Program(functions=functions).build()


def proving(stateful: bool) -> bytes:
    """A module that gives what it takes, with golden calls that say so."""
    example = np.random.default_rng(2).standard_normal((3, 7)).astype(np.float32)
    given = SeededInput.like(example, seed=5)
    known = SampledOutput.of(given.array(), Tolerance(absolute=1e-3), samples=3)
    call = SeededCall(function="main", inputs=(given,), outputs=(known,))
    calls = SeededCalls(calls=(call,), source="", is_stateful=stateful)
    main = Function(
        name="main",
        convention="0r_r",
        body=[("block", "start"), ("return", [ref(0)])],
        attributes={GOLDEN_ATTRIBUTE: calls.text()},
    )
    return Program(functions=[main]).build()


def _weights() -> Iterator[tuple[str, bytes]]:
    """The same three in both formats; of the second one is a pattern that repeats."""
    values = {"a": np.arange(6, dtype=np.float32), "b\u00e9": np.ones((2, 3), np.int8)}
    yield "safetensors", safetensors.numpy.save(values, metadata={"made": "here"})
    index = ParameterIndex()
    for name, array in values.items():
        index.add_buffer(name, array.tobytes())
    index.add_splat("splat", np.float32(0.25).tobytes(), 24)
    with tempfile.TemporaryDirectory() as folder:
        index.create_archive_file(str(Path(folder, "w.irpa")))
        yield "irpa", Path(folder, "w.irpa").read_bytes()


def _compiled(text: str, target: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.mlir")
        source.write_text(text)
        options = toolchain.CompileOptions(output=Path(folder, "program.vmfb"), check=False)
        return toolchain.compile(source, target, options).path.read_bytes()


def _executable(module: bytes) -> bytes:
    """The smallest executable for Vulkan in a module."""
    found = []
    at = module.find(b"VKE1")
    while at >= 0:
        (size,) = struct.unpack_from("<Q", module, at + 8)
        found.append(module[at : at + 64 + size])
        at = module.find(b"VKE1", at + 4)
    return min(found, key=len)
