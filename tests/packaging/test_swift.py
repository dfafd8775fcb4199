"""The Swift of Apple's packages, compiled and run on Linux, where a Swift compiler is there."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from edgec.signing import new_key, sign_module
from edgec.toolchain import Program
from tests.packaging.conftest import run
from tests.packaging.swift_app import swift_app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("swiftc") is None, reason="no swiftc: Debian 12 has none"),
]


@pytest.fixture(scope="module")
def app(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program around the package's Swift, and the module in its resources."""
    main = Path(__file__).parent / "swift" / "AskDigits.swift"
    return swift_app(digits, "digits", main, tmp_path_factory.mktemp("swift"))


def test_swift_gives_the_frameworks_answers_and_refuses_what_is_not_signed(
    app: tuple[Path, Path], digits: Program, tmp_path: Path
) -> None:
    program, module = app
    (call, *_) = digits.golden.calls if digits.golden is not None else ()
    image = ",".join(str(number) for number in call.inputs[0].ravel())

    def said(key: str) -> str:
        return run(program, module.parents[1], key, image).strip()

    def check_answers(text: str) -> None:
        label, *scores = text.split()
        assert int(label) == call.outputs[0].ravel()[0]
        expected = call.outputs[1].ravel()
        np.testing.assert_allclose(np.array(scores, np.float32), expected, rtol=1e-4, atol=1e-4)

    own, other = (new_key(tmp_path / f"{name}.key") for name in ("own", "other"))
    check_answers(said(""))
    assert said(own.public.hex()).startswith("untrusted:")
    sign_module(module, own, module)
    check_answers(said(own.public.hex()))
    assert "another key" in said(other.public.hex())
    data = module.read_bytes()
    for place in range(0, len(data), len(data) // 50):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        module.write_bytes(changed)
        assert said(own.public.hex()).startswith("untrusted:")
    module.write_bytes(data)
