import time

import pytest

from edgec.cli.session import Session
from edgec.cli.waiting import waiting


def _said(capsys: pytest.CaptureFixture[str], session: Session, every: float) -> list[str]:
    with waiting(session, "reading net", every=every) as at:
        time.sleep(0.2)
        at("calling net")
        time.sleep(0.2)
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def test_what_lasts_is_said_with_what_it_is_at(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _said(capsys, Session(), 0.02)
    assert lines[0].startswith("reading net (")
    assert lines[-1].startswith("calling net (")


@pytest.mark.parametrize("session", [Session(json=True), Session(verbosity=-1)])
def test_nobody_is_told_where_nobody_reads(
    capsys: pytest.CaptureFixture[str], session: Session
) -> None:
    assert _said(capsys, session, 0.02) == []


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(capsys, Session(), 60) == []
