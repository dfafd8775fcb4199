"""What holds for every test: matches are validated, TensorFlow stays in its own processes.

Of a test that is marked as a sweep, some of its cases are fast, and the others slow.

What a test compiles without its golden calls, to compare answers itself, is compiled as with them.

All of them share one edgert, which is built once: many have an empty cache of their own, where each
process would build it anew.
"""

import contextlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.runtime import edgert_library
from edgec.runtime.errors import CompileError, DeviceError
from edgec.toolchain.compiling import making, steps
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.match.validation import validating

BUILT = Path(__file__).resolve().parents[1] / "build" / "tests"


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but `fast` cases of each sweep, those between evenly chosen ones."""

    def test(item: pytest.Item) -> str:
        return item.nodeid.partition("[")[0]

    sweeps = [item for item in items if item.get_closest_marker("sweep")]
    for _, group in itertools.groupby(sorted(sweeps, key=test), key=test):
        cases = list(group)
        mark = cases[0].get_closest_marker("sweep")
        assert mark is not None
        fast = mark.kwargs["fast"]
        chosen = {round(n * (len(cases) - 1) / max(fast - 1, 1)) for n in range(fast)}
        for number, case in enumerate(cases):
            if number not in chosen:
                case.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _edgert_is_built_once() -> Iterator[None]:
    """Name the library to every process; where none can be built, tests find that out."""
    with pytest.MonkeyPatch.context() as patch:
        with pytest.MonkeyPatch.context() as here, contextlib.suppress(DeviceError):
            here.setenv("EDGEC_CACHE_DIR", str(BUILT))
            library = edgert_library.find_library.__wrapped__()
            patch.setenv(edgert_library.EDGERT_VARIABLE, str(library))
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_as_what_is_proved() -> Iterator[None]:
    """Compile what has golden calls as users have it where a test leaves them out.

    That is without the compiler's check of its own steps, and with it what fails so.
    """

    def compiled(task: Task, *given: Any, verify: bool = True, **named: Any) -> tuple[str, ...]:
        asked = replace(task, options=replace(task.options, check=True))
        if verify and not task.options.check and asked.may_be_proved:
            with contextlib.suppress(CompileError):
                return steps.compile_files(task, *given, verify=False, **named)
        return steps.compile_files(task, *given, verify=verify, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "compile_files", compiled)
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
