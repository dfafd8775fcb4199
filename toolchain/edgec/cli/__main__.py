"""`python -m edgec.cli`: the same as the `edgec` command."""

from edgec.cli.main import main

main()
