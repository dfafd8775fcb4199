"""What was measured on another machine as a report of `edgec bench`."""

from edgec.cli.amounts import bytes_text, seconds_text
from edgec.cli.dispatch_grid import dispatch_grid
from edgec.cli.report import Block, Grid, Report
from edgec.ondevice import Deployment, Measured
from edgec.runtime import BenchResult, Profile

__all__ = ["report_there"]

_UNKNOWN = "not told"


def report_there(
    there: Deployment,
    function: str,
    measured: Measured,
    profile: Profile | None,
    *,
    is_random: bool,
) -> Report:
    """The same figures as of a measurement here, and the state that the device was in."""
    place = there.place
    device = f"edgert://cpu?threads={measured.threads}"
    temperature = measured.temperature
    rows = (
        ("load", seconds_text(measured.load)),
        ("first call", seconds_text(measured.first)),
        ("P50", seconds_text(measured.p50)),
        ("P90", seconds_text(measured.p90)),
        ("P99", seconds_text(measured.p99)),
        ("mean", seconds_text(measured.mean)),
        ("minimum", seconds_text(measured.minimum)),
        ("throughput", f"{measured.throughput:.1f} calls/s"),
        ("peak memory", bytes_text(measured.peak)),
        ("threads", str(measured.threads)),
        ("governor", ", ".join(measured.governors) or _UNKNOWN),
        (
            "temperature",
            _UNKNOWN
            if temperature is None
            else f"{temperature.before:.1f} °C, then {temperature.after:.1f} °C "
            f"({temperature.zone})",
        ),
    )
    result = BenchResult(
        path=there.module.path,
        function=function,
        device=device,
        device_name=place.model,
        runtime="edgert",
        load=measured.load,
        first=measured.first,
        calls=measured.calls,
        p50=measured.p50,
        p90=measured.p90,
        p99=measured.p99,
        mean=measured.mean,
        minimum=measured.minimum,
        throughput=measured.throughput,
        peak_rss=measured.peak,
        threads=1,
    )
    state = {
        "threads": measured.threads,
        "governors": list(measured.governors),
        "temperature": None if temperature is None else temperature.to_json(),
    }
    blocks: list[Block] = [
        f"{there.module.path}: {function} on {place.name} ({place.model}), by edgert, "
        f"{measured.calls} calls",
        Grid(columns=("what", "value"), rows=rows, right=frozenset({1})),
    ]
    if profile is not None:
        blocks += ["", dispatch_grid(profile)]
    return Report(
        data={
            "result": result.to_json(),
            "inputs": "random" if is_random else "given",
            "profile": None if profile is None else profile.to_json(),
            "on": place.to_json() | state,
        },
        blocks=tuple(blocks),
    )
