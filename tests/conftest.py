"""What holds for every test: matches are validated, TensorFlow stays in its own processes."""

import sys
from collections.abc import Iterator

import pytest

from edgec.toolchain.match.validation import validating


@pytest.fixture(autouse=True)
def _tensorflow_stays_apart(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that brings TensorFlow into a process where Vulkan may be in use."""
    before = "tensorflow" in sys.modules
    yield
    brought = not before and "tensorflow" in sys.modules
    if brought and request.node.get_closest_marker("tensorflow") is None:
        pytest.fail("this test imports TensorFlow: mark its file `tensorflow` or use a child")


@pytest.fixture(autouse=True)
def _matches_are_validated() -> Iterator[None]:
    """Compare what matchers find with the operations it stands for, here and in children."""
    with pytest.MonkeyPatch.context() as patch, validating():
        patch.setenv("EDGEC_VALIDATE", "1")
        yield
