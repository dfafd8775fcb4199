import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgec.cli.options import complete_device, complete_target

COMMAND = str(Path(sys.executable).with_name("edgec"))


def completed(words: str) -> list[str]:
    """What bash would offer for the last word."""
    environment = os.environ | {
        "_EDGEC_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.split("\n") if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("edgec com", {"compile"}),
        ("edgec compile --target cuda:sm_8", {"cuda:sm_86", "cuda:sm_87", "cuda:sm_89"}),
        ("edgec run --device lo", {"local-task", "local-sync"}),
        ("edgec targets andr", {"android"}),
    ],
)
def test_the_shell_is_offered_verbs_targets_and_devices(words: str, offered: set[str]) -> None:
    assert offered <= set(completed(words))


def test_functions_of_the_module_on_the_line_are_offered(module: Path) -> None:
    assert completed(f"edgec run {module} --function s") == ["scores"]
    assert completed("edgec run none.vmfb --function s") == []


def test_completions_begin_with_what_was_typed_and_say_what_they_are() -> None:
    found = dict(complete_target("vulkan:a"))
    assert "vulkan:adreno" in found
    assert all(name.startswith("vulkan:a") and summary for name, summary in found.items())
    assert dict(complete_device("local-task:")) == {}
    assert dict(complete_device("nonsense:")) == {}
    assert [name for name, _ in complete_device("v")] == ["vulkan"]
