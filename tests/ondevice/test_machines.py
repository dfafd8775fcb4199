import pytest

from edgec.ondevice.machines import (
    MACHINES,
    by_android,
    by_emulator,
    by_kernel,
    suggest_target,
)
from edgec.targets import find


def test_a_phone_runs_programs_of_all_its_abis_its_own_first() -> None:
    machines = by_android("arm64-v8a,armeabi-v7a,armeabi\n")
    assert [machine.name for machine in machines] == ["arm_64", "arm_32"]
    assert by_android("mips") == ()


@pytest.mark.parametrize(
    ("name", "machine"),
    [("aarch64", "arm_64"), ("armv7", "arm_32"), ("riscv64", "riscv_64"), ("x86_64", "x86_64")],
)
def test_emulators_have_the_kernels_names(name: str, machine: str) -> None:
    found = by_emulator(name)
    assert found is not None
    assert found.name == machine
    assert by_kernel("sparc") is None


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_machine_has_a_target_that_asks_for_nothing(machine) -> None:
    target = find(suggest_target(machine, {}))
    assert target.required_features == ()
    assert target.cpu is not None
    assert target.cpu.triple.startswith(machine.llvm)


def test_the_target_that_uses_most_of_the_cpu_is_suggested() -> None:
    arm = by_kernel("aarch64")
    assert arm is not None
    features = dict.fromkeys(("lse", "fullfp16", "dotprod"), True)
    assert suggest_target(arm, features) == "cpu:arm64-v8.2"
    assert suggest_target(arm, features | {"dotprod": False}) == "cpu:arm64"
    assert suggest_target(arm, features | {"bf16": True, "i8mm": True}) == "cpu:arm64-v8.6"
