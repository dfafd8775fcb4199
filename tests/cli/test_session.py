"""What edgec's logs warn of is told once, whoever else listens to logs."""

import io
import logging

import pytest

from edgec.cli.session import Session, told


def test_a_warning_is_told_once_where_a_library_configured_logging(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = io.StringIO()
    library, log = logging.StreamHandler(printed), logging.getLogger("edgec.exporters")
    logging.getLogger().addHandler(library)
    try:
        session = Session()
        with told(session, "edgec.exporters"):
            log.warning("a size was guessed")
        assert session.notes == ["a size was guessed"]
        assert capsys.readouterr().err == "note: a size was guessed\n"
        assert printed.getvalue() == ""
        log.warning("nobody tells this one")
        assert printed.getvalue() == "nobody tells this one\n"
    finally:
        logging.getLogger().removeHandler(library)
