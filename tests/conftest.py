"""What holds for every test: TensorFlow stays in the processes that are meant for it."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _tensorflow_stays_apart(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that brings TensorFlow into a process where Vulkan may be in use."""
    before = "tensorflow" in sys.modules
    yield
    brought = not before and "tensorflow" in sys.modules
    if brought and request.node.get_closest_marker("tensorflow") is None:
        pytest.fail("this test imports TensorFlow: mark its file `tensorflow` or use a child")
