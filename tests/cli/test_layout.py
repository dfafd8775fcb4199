import io

import pytest

from edgec.cli.amounts import bytes_text, seconds_text
from edgec.cli.layout import plain, printable, write_blocks
from edgec.cli.report import Grid

GRID = Grid(
    columns=("name", "size"),
    rows=(("a", "1 B"), ("\x1b[31mred\x1b[0m\nline", "10 KiB")),
    right=frozenset({1}),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_columns_are_aligned_and_end_without_blanks() -> None:
    grid = Grid(columns=("n", "x"), rows=(("long", "1"), ("s", "")), right=frozenset({1}))
    assert plain(["head", grid]) == "head\nn     x\nlong  1\ns\n"


def test_names_cannot_steer_a_terminal() -> None:
    assert printable("a\x1b]0;b\x07\r\u202e\x9b") == "a\\x1b]0;b\\x07\\r\\u202e\\x9b"
    assert printable("line\nline") == "line\nline"
    for stream in (io.StringIO(), Terminal()):
        write_blocks(["\x1b[2Jx", GRID], stream)
        assert "\x1b[2J" not in stream.getvalue()
        assert "\x1b[31m" not in stream.getvalue()


def test_a_pipe_gets_no_colours_and_no_wrapping() -> None:
    stream = io.StringIO()
    write_blocks(["x" * 500, GRID], stream)
    assert "x" * 500 in stream.getvalue()
    assert "\x1b" not in stream.getvalue().replace("\\x1b", "")


def test_no_color_is_honoured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    write_blocks([GRID], coloured)
    assert "\x1b[1m" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    bare = Terminal()
    write_blocks([GRID], bare)
    assert "\x1b[3" not in bare.getvalue()


def test_a_grid_with_a_short_row_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        Grid(columns=("a", "b"), rows=(("x",),))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (36_966, "36.1 KiB"),
        (1 << 20, "1.00 MiB"),
        (512 << 20, "512 MiB"),
        (5 << 40, "5.00 TiB"),
    ],
)
def test_bytes_are_read_easily(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.23e-5, "12.3 µs"), (0.00456, "4.56 ms"), (1.234, "1.23 s"), (125.9, "2 min 05 s")],
)
def test_seconds_are_read_easily(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
