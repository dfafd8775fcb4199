"""What takes a program or a module refuses a model, and says what to do first."""

import pytest


@pytest.mark.parametrize("verb", ["tune", "quantise", "verify", "view", "inspect"])
@pytest.mark.parametrize(
    "name", ["net.py:model", "hf:some/folder", "net.onnx", "package.net:model"]
)
def test_a_model_has_to_be_exported_first_and_that_is_said(edgec, verb: str, name: str) -> None:
    done = edgec(verb, name, *(("-o", "new.mlirbc") if verb == "quantise" else ()))
    assert done.code == 2
    assert f"{name} is a model" in done.err
    assert f"edgec export {name}" in done.err


def test_a_module_is_no_program(edgec) -> None:
    for line in (("tune", "net.vmfb"), ("quantise", "net.vmfb", "-o", "new.mlirbc")):
        done = edgec(*line)
        assert done.code == 2
        assert "net.vmfb is a module, and a program is wanted" in done.err
