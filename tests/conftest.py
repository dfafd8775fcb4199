"""What holds for every test: matches are validated, TensorFlow stays in its own processes.

All of them share one edgert, which is built once: many have an empty cache of their own, where each
process would build it anew.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.runtime import edgert_library
from edgec.runtime.errors import DeviceError
from edgec.toolchain.match.validation import validating

BUILT = Path(__file__).resolve().parents[1] / "build" / "tests"


@pytest.fixture(scope="session", autouse=True)
def _edgert_is_built_once() -> Iterator[None]:
    """Name the library to every process; where none can be built, tests find that out."""
    with pytest.MonkeyPatch.context() as patch:
        with pytest.MonkeyPatch.context() as here, contextlib.suppress(DeviceError):
            here.setenv("EDGEC_CACHE_DIR", str(BUILT))
            library = edgert_library.find_library.__wrapped__()
            patch.setenv(edgert_library.EDGERT_VARIABLE, str(library))
        yield


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
