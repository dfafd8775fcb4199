"""Module files are read byte by byte, and damage is an error of edgec's, never another."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import flatbuffers
import pytest

from edgec.runtime import load
from edgec.runtime.errors import ModuleError
from edgec.runtime.module import Module
from edgec.runtime.vmfb import Vmfb, parse

PLAIN = "--iree-vm-emit-polyglot-zip=false"


@pytest.fixture(params=["archive", "plain"])
def path(request: pytest.FixtureRequest, compile_mlir: Callable[..., Path]) -> Path:
    flags = [PLAIN] if request.param == "plain" else []
    return compile_mlir(SMALL, "local-task", *flags)


SMALL = """
module @small {
  util.global private mutable @state = dense<1.0> : tensor<16xf32>
  func.func @main(%x: tensor<?x16xf32>, %s: tensor<16xui8>) -> tensor<?x16xf32> {
    %t = stablehlo.add %x, %x : tensor<?x16xf32>
    return %t : tensor<?x16xf32>
  }
  func.func @next() -> tensor<16xf32> {
    %v = util.global.load @state : tensor<16xf32>
    %c = stablehlo.constant dense<"0x%s"> : tensor<16xf32>
    %r = stablehlo.add %v, %c : tensor<16xf32>
    util.global.store %r, @state : tensor<16xf32>
    return %r : tensor<16xf32>
  }
}
""".replace("0x%s", "0x" + "0000803f00000040" * 8)


def read(data: bytes) -> Vmfb:
    return parse(memoryview(data), "test.vmfb")


def test_a_module_tells_what_it_exports_and_imports(path: Path) -> None:
    file = read(path.read_bytes())
    assert file.name == "small"
    assert file.bytecode_version == (17, 0)
    assert file.dependencies == {"hal": 7}
    assert [export.name for export in file.exports] == ["main", "next", "__init"]
    assert file.exports[0].convention == "0rr_r"
    assert "tensor<16xui8>" in file.exports[0].attributes["iree.abi.declaration"]
    assert "hal.buffer_view.create" in [function.name for function in file.imports]


def test_the_reader_agrees_with_the_runtime_own_dump(path: Path) -> None:
    from iree.runtime import VmInstance, VmModule

    module = VmModule.mmap(VmInstance(), str(path))
    assert [export.name for export in read(path.read_bytes()).exports] == module.function_names


def test_executables_are_found_with_their_formats(path: Path) -> None:
    data = path.read_bytes()
    (segment,) = [s for s in read(data).segments if s.code]
    assert segment.code == "embedded-elf-x86_64"
    assert data[segment.offset : segment.offset + 4] == b"\x7fELF"


def test_the_cpu_features_of_foreign_code_are_known(compile_mlir: Callable[..., Path]) -> None:
    generic = compile_mlir(
        SMALL,
        "local-task",
        "--iree-llvmcpu-target-cpu=generic",
        "--iree-llvmcpu-target-cpu-features=+avx2,+fma,-avx512f",
    )
    (target,) = read(generic.read_bytes()).code_targets
    assert target.device == "local"
    assert {"avx2", "fma"} <= set(target.features)
    assert "avx512f" not in target.features


def test_the_ledger_accounts_for_every_byte(path: Path) -> None:
    sizes = Module.read(path).sizes
    assert sizes.total == path.stat().st_size
    assert sum(entry.size for entry in sizes.entries) == sizes.total
    assert all(size > 0 for size in sizes.by_part().values())


def test_source_locations_are_what_stripping_takes_away(
    compile_mlir: Callable[..., Path],
) -> None:
    full = Module.read(compile_mlir(SMALL)).sizes
    bare = Module.read(
        compile_mlir(SMALL, "local-task", "--iree-vm-bytecode-module-strip-source-map")
    ).sizes
    assert bare.to_json()["parts"]["debug"] == 0
    debug = full.to_json()["parts"]["debug"]
    assert abs(full.total - bare.total - debug) <= 64


def test_a_function_of_nothing_is_read_and_called(compile_mlir: Callable[..., Path]) -> None:
    path = compile_mlir("module @empty { func.func @main() { return } }")
    assert [each.name for each in parse(path.read_bytes(), "empty").exports][:1] == ["main"]
    with load(path, device="edgert://cpu") as module:
        assert module.main() == ()


def test_every_truncation_is_refused(path: Path) -> None:
    data = path.read_bytes()
    # What lies behind the last segment of a plain module is padding.
    last = max(s.offset + s.size for s in read(data).segments)
    for size in range(0, last, 64):
        with pytest.raises(ModuleError):
            read(data[:size])


def test_random_bytes_are_refused() -> None:
    source = random.Random(1)
    for size in (0, 1, 3, 4, 11, 12, 64, 1000, 10_000):
        with pytest.raises(ModuleError):
            read(source.randbytes(size))
        with pytest.raises(ModuleError):
            read(b"PK\3\4" + source.randbytes(size))
        with pytest.raises(ModuleError):
            read(size.to_bytes(4, "little") + b"\x0c\0\0\0IREE" + source.randbytes(size))


def damaged(data: bytes, seed: int, count: int) -> list[bytes]:
    """Copies with one bit flipped, and copies with a stretch of noise."""
    source = random.Random(seed)
    found = []
    for _ in range(count):
        copy = bytearray(data)
        bit = source.randrange(len(copy) * 8)
        copy[bit // 8] ^= 1 << bit % 8
        found.append(bytes(copy))
    for _ in range(count // 4):
        copy = bytearray(data)
        start = source.randrange(len(copy))
        end = min(len(copy), start + source.choice((1, 4, 8, 64, 512)))
        copy[start:end] = source.randbytes(end - start)
        found.append(bytes(copy))
    return found


def test_damage_is_refused_or_harmless(path: Path) -> None:
    for data in damaged(path.read_bytes(), seed=2, count=400):
        try:
            file = read(data)
        except ModuleError:
            continue
        assert file.exports


def test_an_archive_is_refused_whatever_bit_of_a_part_is_flipped(
    compile_mlir: Callable[..., Path],
) -> None:
    data = compile_mlir(SMALL).read_bytes()
    parts = read(data).archive
    source = random.Random(3)
    for _ in range(300):
        part = source.choice(parts)
        at = part.offset + source.randrange(part.size)
        copy = bytearray(data)
        copy[at] ^= 1 << source.randrange(8)
        with pytest.raises(ModuleError):
            read(bytes(copy))


@pytest.mark.parametrize("field", [4, 6, 7, 8, 9, 12, 14])
@pytest.mark.parametrize("count", [0x7FFFFFFF, 0xFFFFFFFF, 0x10000000])
def test_a_vector_without_end_is_refused_at_once(
    field: int, count: int, compile_mlir: Callable[..., Path]
) -> None:
    data = bytearray(compile_mlir(SMALL, "local-task", PLAIN).read_bytes())
    table = 4 + int.from_bytes(data[4:8], "little")
    vtable = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    at = table + int.from_bytes(data[vtable + 4 + 2 * field : vtable + 6 + 2 * field], "little")
    vector = at + int.from_bytes(data[at : at + 4], "little")
    data[vector : vector + 4] = count.to_bytes(4, "little")
    with pytest.raises(ModuleError, match="outside"):
        read(bytes(data))


def test_tables_that_share_one_long_vector_are_refused() -> None:
    """Every import names one string of half the file: reading them all would take hours."""
    count = 20_000
    builder = flatbuffers.Builder(0)
    name = builder.CreateString("a" * 100_000)
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    entry = builder.EndObject()
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(entry)
    entries = builder.EndVector()
    builder.StartObject(15)
    builder.PrependUOffsetTRelativeSlot(4, entries, 0)
    builder.PrependUOffsetTRelativeSlot(6, entries, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"IREE")
    data = bytes(builder.Output())
    with pytest.raises(ModuleError, match="without end"):
        read(len(data).to_bytes(4, "little") + data)


def test_a_reader_needs_no_iree(path: Path) -> None:
    code = (
        "import sys; sys.modules['iree'] = None\n"
        "from edgec.runtime.module import Module\n"
        f"print(sorted(Module.read({str(path)!r}).signatures))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "['main', 'next']", done.stderr
