"""`edgec devices`: what is here and usable, and for what is not, why."""

from edgec.cli.report import Grid, Report
from edgec.cli.session import Session

__all__ = ["devices"]


def devices(session: Session) -> Report:
    """List this machine's devices; for those that cannot be used, why and what mends it."""
    from edgec.runtime import devices as find_devices

    found = find_devices()
    usable = tuple(s for s in found if s.usable)
    absent = tuple(s for s in found if not s.usable)
    blocks: list[str | Grid] = [
        Grid(
            columns=("device", "name", "runtime"),
            rows=tuple((s.uri, s.name, s.runtime) for s in usable),
        )
    ]
    if absent:
        blocks.append("")
        blocks.append(
            Grid(
                columns=("not usable", "why", "next"),
                rows=tuple((f"{s.uri} {s.name}".strip(), s.reason, s.hint) for s in absent),
            )
        )
    return Report(data={"devices": [s.to_json() for s in found]}, blocks=tuple(blocks))
