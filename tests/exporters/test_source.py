import warnings
from pathlib import Path

import numpy as np
import pytest

from edgec.exporters import export_source
from edgec.exporters.source import is_stablehlo, open_source
from edgec.runtime.errors import FileError, SourceError, UsageError

FILE = """\
import jax
import jax.numpy as jnp
import numpy as np
from edgec.exporters import Bundle, Entry
import beside

class Net:
    pass

def double(x):
    return x * beside.FACTOR

def shift(x, by):
    return x + by

example_inputs = {"x": np.ones((2, 3), np.float32)}

def classifier():
    return jax.nn.relu, (np.ones((4, 3), np.float32),)

def by_keyword():
    return shift, {"x": np.ones(3, np.float32), "by": np.float32(1)}

def with_kwargs():
    return shift, (np.ones(3, np.float32),), {"by": np.float32(1)}

def entry():
    return Entry(double, (np.ones(3, np.float32),), name="twice")

def many():
    return Bundle((entry(), Entry(jnp.sin, (np.ones(3, np.float32),), name="sine")))

def constant():
    return jnp.arange(3.0)

def broken():
    raise ValueError("no weights here")

number = 3

class holder:
    inner = staticmethod(double)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import sys

    (tmp_path / "beside.py").write_text("FACTOR = 2\n")
    path = tmp_path / "my_model.py"
    path.write_text(FILE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    return path


def inputs_of(text: str, **options) -> dict[str, str]:
    program = export_source(text, **options)
    return {f.signature.name: str(f.signature) for f in program.info.functions}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("double", "main(x: f32[2, 3]) -> (result: f32[2, 3])"),
        ("classifier", "main(x: f32[4, 3]) -> (result: f32[4, 3])"),
        ("by_keyword", "main(by: f32[], x: f32[3]) -> (result: f32[3])"),
        ("with_kwargs", "main(x: f32[3], by: f32[]) -> (result: f32[3])"),
        ("entry", "twice(x: f32[3]) -> (result: f32[3])"),
        ("constant", "main() -> (result: f32[3])"),
        ("holder.inner", "main(x: f32[2, 3]) -> (result: f32[2, 3])"),
    ],
)
def test_a_name_in_a_file(model: Path, name: str, said: str) -> None:
    assert list(inputs_of(f"{model}:{name}").values()) == [said]


def test_a_module_and_its_source_is_remembered(model: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(model.parent))
    program = export_source("my_model:classifier")
    assert program.info.provenance.source == "my_model:classifier"
    assert program.info.provenance.framework == "jax"
    assert "jaxlib" in program.info.provenance.versions


def test_signatures_are_added_and_renamed(model: Path) -> None:
    found = inputs_of(f"{model}:double", signatures=("constant", "second=classifier"))
    assert list(found) == ["main", "constant", "second"]


def test_a_bundle_is_cut_to_the_signatures_asked_for(model: Path) -> None:
    assert list(inputs_of(f"{model}:many")) == ["twice", "sine"]
    assert list(inputs_of(f"{model}:many", signatures=("s=sine",))) == ["s"]
    with pytest.raises(SourceError, match="has no signature cosine") as caught:
        export_source(f"{model}:many", signatures=("cosine",))
    assert "twice, sine" in str(caught.value)


def test_dynamic_dimensions_come_along(model: Path) -> None:
    found = inputs_of(f"{model}:double", dynamic=("batch=1..8",))
    assert found["main"].startswith("main(x: f32[batch=1..8, 3])")


@pytest.mark.parametrize(
    ("name", "message", "advice"),
    [
        ("classifer", "has no classifer", "it has classifier"),
        ("holder.outer", "has no holder.outer", ""),
        ("Net", "is a class, not a model", "returns (model, example_inputs)"),
        ("number", "is of type int, which is no model", "example_inputs"),
        ("broken", r"broken\(\) failed: ValueError: no weights here", "call the function yourself"),
    ],
)
def test_a_name_that_is_no_model(model: Path, name: str, message: str, advice: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        export_source(f"{model}:{name}")
    assert advice in str(caught.value)


def test_the_line_of_a_failing_file_is_named(model: Path) -> None:
    with pytest.raises(SourceError) as caught:
        export_source(f"{model}:broken")
    line = FILE.splitlines().index('    raise ValueError("no weights here")') + 1
    assert f"my_model.py:{line} (broken)" in str(caught.value)
    model.write_text("import jax\nimport surely_not_installed\n")
    with pytest.raises(SourceError, match="ModuleNotFoundError") as caught:
        export_source(f"{model}:x")
    assert "my_model.py:2" in (caught.value.where or "")
    assert "surely_not_installed" in (caught.value.hint or "")
    model.write_text("def x(:\n")
    with pytest.raises(SourceError, match="SyntaxError") as caught:
        export_source(f"{model}:x")
    assert "my_model.py:1" in (caught.value.where or "")


def test_a_missing_file_offers_its_neighbour(model: Path) -> None:
    with pytest.raises(FileError, match="no such file") as caught:
        export_source(f"{model.with_name('mymodel.py')}:double")
    assert "my_model.py" in (caught.value.hint or "")


@pytest.mark.parametrize("suffix", [".keras", ".pt2", ".onnx", ".mlirbc"])
def test_a_missing_model_file(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileError):
        export_source(str(tmp_path / f"model{suffix}"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("surely.not.installed:model", "there is no module surely.not.installed"),
        (":name", "is no model that edgec knows"),
    ],
)
def test_a_source_that_is_none(text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        export_source(text)


def test_a_name_that_nothing_has_is_no_file_or_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file or folder"):
        export_source(str(tmp_path / "nonsense"))
    with pytest.raises(FileError, match="no such file or folder"):
        export_source("nonsense")


def test_a_folder_without_a_saved_model(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"without a saved_model\.pb"):
        export_source(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("net.pt", "torch.export.save"),
        ("net.pth", "FILE.py:NAME"),
        ("net.safetensors", "FILE.py:NAME"),
        ("net.h5", "keras.models.load_model"),
        ("net.vmfb", "edgec run"),
        ("net.py", "net.py:NAME"),
    ],
)
def test_a_file_of_another_kind_says_how_to_get_at_its_model(
    tmp_path: Path, name: str, hint: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(SourceError) as caught:
        export_source(str(tmp_path / name))
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("there", ["saved_model", "digits.onnx", "digits/net.keras"])
def test_a_mistyped_path_offers_its_neighbour(tmp_path: Path, there: str) -> None:
    (tmp_path / there).mkdir(parents=True)
    mistyped = tmp_path / there.replace("d", "dd", 1)
    with pytest.raises(FileError, match="no such file or folder") as caught:
        export_source(str(mistyped))
    assert caught.value.hint == f"did you mean {tmp_path / there}?"


def test_a_folder_says_which_models_it_holds(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    with pytest.raises(SourceError, match="but holds net") as caught:
        export_source(str(tmp_path))
    assert caught.value.hint == f"give {tmp_path / 'net.onnx'}"
    (tmp_path / "config.json").touch()
    with pytest.raises(SourceError, match="Hugging Face") as caught:
        export_source(str(tmp_path))
    assert "from_pretrained" in (caught.value.hint or "")


def test_a_missing_framework_is_installed_by_its_extra(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    for text in ("import torch.nn\n", "def x():\n    import torch.nn\n"):
        model.write_text(text)
        with pytest.raises(SourceError, match="ModuleNotFoundError") as caught:
            export_source(f"{model}:x")
        assert caught.value.hint == 'pip install "edgec[torch]"'


def test_an_unknown_weights_suffix_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no weights file"):
        export_source("nonsense", external_weights=tmp_path / "w.bin")


def test_frameworks_are_told_apart_without_importing_them(model: Path) -> None:
    import torch

    assert is_stablehlo("a/b.mlir")
    model.write_text("import torch\nexample_inputs = torch.ones(2)\ndef f(x): return x\n")
    assert open_source(f"{model}:f").framework.name == "torch"
    model.write_text("import torch\nmodel = torch.nn.Linear(2, 2)\n")
    found = open_source(f"{model}:model")
    assert found.framework.name == "torch"
    assert isinstance(found.bundle.entries[0].function, torch.nn.Linear)
    model.write_text(
        "import torch, jax, numpy as np\nfrom edgec.exporters import Bundle, Entry\n"
        "def both(): return Bundle((Entry(torch.nn.Linear(2, 2), name='a'),"
        " Entry(jax.nn.relu, (np.ones(2),), name='b')))\n"
    )
    with pytest.raises(UsageError, match="a is torch, b is jax"):
        open_source(f"{model}:both")


def test_golden_answers_come_from_the_model(model: Path) -> None:
    program = export_source(f"{model}:double")
    (call,) = program.golden.calls
    np.testing.assert_array_equal(call.outputs[0], np.full((2, 3), 2, np.float32))


def test_a_torchscript_archive_is_told_from_weights(tmp_path: Path) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch will drop what it still writes
        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    for name in ("net.jit", "net.pt"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            scripted.save(str(tmp_path / name))
        with pytest.raises(SourceError, match="TorchScript archive") as refused:
            open_source(str(tmp_path / name))
        assert "torch.onnx.export(torch.jit.load(" in str(refused.value.hint)
    torch.save(scripted.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(SourceError, match="weights or pickled objects"):
        open_source(str(tmp_path / "weights.pt"))
