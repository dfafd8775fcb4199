"""The command line: argv to an exit code. The only part of edgec that prints errors or exits."""

from edgec.cli.main import main

__all__ = ["main"]
