import pytest

from edgec.runtime.errors import TargetError
from edgec.targets import Backend, ByteProducts, Cache, Target, Vectors, catalogue

WHOLE = """
name = "cpu:test"
aliases = ["cpu:t"]
summary = "a test"
driver = "local-task"
backend = "llvm-cpu"
data_tiling = true
flags = ["--x"]

[cpu]
triple = "aarch64-unknown-linux-gnu"
features = ["+dotprod"]
requires = ["dotprod"]

[[cpu.vectors]]
lanes = 4
registers = 32

[[cpu.byte_products]]
signed = true

[cpu.cache]
sets = 2048

[limits]
stack = 65536

[[notes]]
text = "one fact"
source = "measured"
"""


def test_a_target_file_gives_every_field():
    target = Target.from_toml(WHOLE)
    assert target.name == "cpu:test"
    assert target.aliases == ("cpu:t",)
    assert target.backend is Backend.CPU
    assert target.cpu is not None
    assert target.cpu.triple == "aarch64-unknown-linux-gnu"
    assert target.cpu.features == ("+dotprod",)
    assert target.required_features == ("dotprod",)
    assert target.cpu.vectors == (Vectors(lanes=4, registers=32),)
    assert target.cpu.cache == Cache(line=64, sets=2048, ways=16)
    assert target.cpu.cache.size == 2 << 20
    assert target.cpu.byte_products == (ByteProducts(signed=True),)
    assert target.limits.stack == 65536
    assert target.limits.f64
    assert target.data_tiling
    assert target.flags == ("--x",)
    assert target.notes[0].source == "measured"
    assert target.file_name == "cpu-test"


@pytest.mark.parametrize(
    "damage",
    [
        ("[cpu]", "[gpu]"),
        ('backend = "llvm-cpu"', 'backend = "llvm-gpu"'),
        ("data_tiling", "data_tilling"),
        ("stack = 65536", "stak = 65536"),
        ('name = "cpu:test"', ""),
        ('"a test"', "a test"),
    ],
)
def test_a_damaged_target_file_is_refused(damage: tuple[str, str]):
    with pytest.raises(TargetError):
        Target.from_toml(WHOLE.replace(*damage))


def test_a_target_as_json_has_plain_types_only():
    value = Target.from_toml(WHOLE).to_json()
    assert value["backend"] == "llvm-cpu"
    assert value["cpu"]["features"] == ["+dotprod"]
    assert value["gpu"] is None
    assert value["notes"] == [{"text": "one fact", "source": "measured"}]


def test_spirv_is_a_fact_of_the_target():
    kinds = {target.backend: target.is_spirv for target in catalogue()}
    assert {backend for backend, spirv in kinds.items() if spirv} == {
        Backend.VULKAN,
        Backend.METAL,
        Backend.WEBGPU,
    }


def test_registers_without_lanes_are_refused():
    with pytest.raises(TargetError, match="lanes"):
        Target.from_toml(WHOLE.replace("lanes = 4", "lanes = 1"))


def test_each_processor_that_has_vectors_says_so():
    plain = {"cpu:riscv64", "wasm:plain"}
    processors = [target for target in catalogue() if target.cpu is not None]
    assert {t.name for t in processors if t.cpu and not t.cpu.vectors} == plain
