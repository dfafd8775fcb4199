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


def test_the_page_counts_what_is_found_and_what_is_named() -> None:
    one, other, last = FAULTS[:3]
    right = line_of(one)
    tried = [
        Tried(fault=one, found=Found(code=23, said="", lines=(right, right + 1), values=3)),
        Tried(fault=other, found=Found(code=23, said="", lines=(1,), values=3)),
        Tried(fault=last, found=Found(code=0, said="", lines=(), values=3)),
    ]
    text = page(tried, {"stem": Found(code=0, said="", lines=(), values=3)})
    assert "**2 of 3 are found, and of 1 the right line is named**, among 2.0 lines" in text
    assert "Of 1 models tried without a fault 1 are right" in text
    assert "without a fault" not in page(tried, {})
    assert text.count("| not found |") == 1
