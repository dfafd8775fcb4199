"""A target's file to the registers that kernels use."""

from dataclasses import replace

import pytest

from edgec.targets import Target, find
from edgec.toolchain.kernels.cpu.source import vectors
from edgec.toolchain.kernels.cpu.source.dot_unit import dot_unit
from edgec.toolchain.kernels.cpu.source.vectors import vector_unit


@pytest.mark.parametrize(
    ("machine", "features", "lanes", "fused", "signed"),
    [
        ("x86_64", {"avx2", "fma", "avx512f", "avx512_vnni"}, 16, True, False),
        ("x86_64", {"avx2", "fma"}, 8, True, None),
        ("x86_64", {"avx2"}, 8, False, None),
        ("AMD64", set(), 4, False, None),
        ("aarch64", {"asimd", "asimddp"}, 4, True, True),
        ("arm64", set(), 4, True, None),
        ("armv7l", {"neon", "vfpv4"}, 4, True, None),
        ("armv7l", {"vfpv3"}, None, None, None),
        ("s390x", set(), None, None, None),
    ],
)
def test_the_machine_that_compiles_is_asked(
    machine, features, lanes, fused, signed, monkeypatch
) -> None:
    monkeypatch.setattr(vectors, "_here", lambda: (machine, frozenset(features)))
    unit, bytes_ = vector_unit(find("cpu:host")), dot_unit(find("cpu:host"))
    assert (unit and unit.lanes, unit and unit.fused) == (lanes, fused)
    assert (bytes_ and bytes_.signed) == signed


def test_a_target_that_does_not_say_has_no_kernels() -> None:
    known: Target = find("cpu:x86-64-v3")
    assert known.cpu is not None
    silent = replace(known, cpu=replace(known.cpu, vectors=()))
    assert vector_unit(known) is not None
    assert vector_unit(silent) is None
    assert vector_unit(find("vulkan")) is None
