"""`edgec keygen` and `edgec sign`: a key, and a module or package that carries its signature."""

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

__all__ = ["keygen", "sign"]


def keygen(
    session: Session,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.key",
            help="The private key; the public one goes beside it, as FILE.pub.",
            show_default=False,
        ),
    ],
) -> Report:
    """Make a pair of keys (Ed25519): one to sign with, one to check with."""
    from edgec.signing import new_key
    from edgec.signing.keys import PUBLIC_SUFFIX

    public = output.with_suffix(PUBLIC_SUFFIX)
    if output.suffix == PUBLIC_SUFFIX:
        raise UsageError(
            f"{output} is what the public key would be called", hint="end the name in .key"
        )
    key = new_key(output)
    return Report(
        data={"private": output, "public": public, "name": key.name, "key": key.public.hex()},
        blocks=(
            f"wrote {output}, which signs: keep it to yourself, and keep it",
            f"wrote {public}, by which others check (key {key.name}): {key.public.hex()}",
        ),
    )


def sign(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="MODULE|PACKAGE",
            help="A module (.vmfb), or a package's folder.",
            show_default=False,
        ),
    ],
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="FILE|env:NAME",
            help="The private key: a file, or a variable of the environment that holds it.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|DIR",
            help="Where the signed one goes (default: in its own place).",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Take the place of a package that is there.")
    ] = False,
) -> Report:
    """Sign a module or package: its code, its weights and its golden answers."""
    from edgec.signing import PrivateKey, sign_module, sign_package

    private = PrivateKey.read(key)
    place = output or file
    if file.is_dir():
        signed = sign_package(file, private, output, replaces=force)
        data = {
            "kind": "package",
            "modules": list(signed.modules),
            "files": signed.files,
        }
        said = f"{len(signed.modules)} modules, and a list of {signed.files} files"
    else:
        from edgec.cli.folders import make_place

        make_place(place)
        seal = sign_module(file, private, place)
        data = {
            "kind": "module",
            "bytes": seal.content_size,
            "weights_bytes": seal.weights_size,
            "seal_bytes": seal.size,
        }
        said = f"{seal.content_size} bytes" + (
            f" and {seal.weights_size} bytes of weights beside it" if seal.weights_size else ""
        )
        if seal.weights_size and place.absolute().parent != file.absolute().parent:
            session.note("the weights stay where they are: copy them beside the signed module")
    return Report(
        data={"file": file, "output": place, "key": private.name, **data},
        blocks=(f"signed {place} with the key {private.name}: {said}",),
    )
