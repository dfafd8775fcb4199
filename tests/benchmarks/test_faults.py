"""The planted faults still fit the sources that they change, and the models that meet them."""

from pathlib import Path

import pytest

from benchmarks.faults.__main__ import ROOT, Found, Tried, line_of, page
from benchmarks.faults.planted import FAULTS, Fault

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[fault.what for fault in FAULTS])


@each_fault
def test_a_fault_changes_one_place_that_is_there(fault: Fault) -> None:
    text = Path(ROOT, "toolchain/edgec/toolchain", fault.file).read_text()
    assert text.count(fault.old) == 1
    assert fault.new != fault.old
    changed = text.replace(fault.old, fault.new)
    compile(changed, fault.file, "exec")
    assert line_of(fault) > 0


def _found(code: int, *lines: int) -> Found:
    return Found(code=code, said="", lines=lines, values=3)


def test_the_page_counts_what_is_found_and_what_is_named() -> None:
    one, other, last = FAULTS[:3]
    right = line_of(one)
    tried = [
        Tried(fault=one, found=_found(23, right, right + 1), by_numpy=None),
        Tried(fault=other, found=_found(23, 1), by_numpy=None),
        Tried(fault=last, found=_found(0), by_numpy=None),
    ]
    text = page(tried, {"stem": _found(0)})
    assert "**2 of 3 are found, and of 1 the right line is named**, among 2.0 lines" in text
    assert "Of 1 models tried without a fault 1 are right" in text
    assert "without a fault" not in page(tried, {})
    assert text.count("| not found |") == 1
