"""What users call takes paths and types as Python itself does, and shows itself in a line."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec.runtime as er
from edgec.exporters import export
from edgec.toolchain import CompileOptions, Program, compile, compile_with_report, load_program

PACKAGES = (
    "edgec.runtime",
    "edgec.targets",
    "edgec.toolchain",
    "edgec.toolchain.tuning",
    "edgec.packaging",
    "edgec.quantising",
    "edgec.signing",
    "edgec.verifying",
    "edgec.viewing",
    "edgec.ondevice",
    "edgec.exporters",
)
# Values that edgec makes itself, or hands to code of its own.
MADE_BY_EDGEC = {*("BenchResult", "Cache", "Deployment", "Made", "Module", "Plan", "Program")}


def _callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function, constructor and method that the packages show, by its name."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{package}.{name}", thing
            if inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
                if name not in MADE_BY_EDGEC:
                    yield f"{package}.{name}", thing
                for method, function in inspect.getmembers(thing, callable):
                    if not method.startswith("_") and inspect.isroutine(function):
                        yield f"{package}.{name}.{method}", function


def test_paths_may_be_texts_wherever_a_user_gives_one():
    seen, wrong = 0, []
    for name, function in _callables():
        for parameter in inspect.signature(function).parameters.values():
            kinds = re.findall(r"\w+", str(parameter.annotation).replace("pathlib.", ""))
            seen += "Path" in kinds
            if "Path" in kinds and "str" not in kinds:
                wrong.append(f"{name}({parameter})")
    assert seen > 20
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def program() -> Program:
    weights = np.linspace(-1, 1, 640, dtype=np.float32).reshape(64, 10)
    return export(lambda image: image @ weights, (np.ones((1, 64), np.float32),))


def test_files_by_the_texts_of_their_paths(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    saved = program.save("x.mlirbc")
    assert saved.path == Path("x.mlirbc")
    assert load_program("x.mlirbc").bytecode == program.bytecode
    golden = er.Golden.load(str(er.Golden.path_for("x.mlirbc")))
    golden.save("y.npz")
    module = compile("x.mlirbc", "cpu", CompileOptions(output="z.vmfb", keep_temps="kept"))
    assert module.path == Path("z.vmfb")
    assert list(Path("kept").glob("*.mlirbc"))
    assert er.check_golden("z.vmfb", er.Golden.load("y.npz")).ok


@pytest.mark.parametrize("dtype", [np.float32, "float32", np.dtype("f4"), float, er.DType.F32])
def test_an_aligned_array_takes_types_and_shapes_as_numpy_does(dtype: Any):
    for shape in ((3, 5), [3, 5], 7):
        array = er.aligned_empty(shape, dtype)
        assert array.dtype == np.dtype(dtype if not isinstance(dtype, er.DType) else "f4")
        assert array.shape == np.empty(shape).shape
        assert array.ctypes.data % er.ALIGNMENT == 0


def test_a_type_that_edgec_does_not_have_is_refused_by_name():
    with pytest.raises(er.errors.InputError, match="datetime64"):
        er.aligned_empty((3,), "datetime64[s]")


def test_each_value_shows_itself_in_one_short_line(program: Program):
    compiled = compile_with_report(program, "cpu")
    with er.load(compiled.module) as loaded:
        values = [program, program.golden, compiled.module, loaded, loaded.main]
        for value in values:
            assert "\n" not in repr(value)
            assert len(repr(value)) < 300
    assert "image: f32[1, 64]" in repr(program)
    assert "cpu:host" in repr(compiled.module)
