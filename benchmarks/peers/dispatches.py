"""A model's module to a table of its slowest dispatches: where the time goes."""

from collections.abc import Iterator

from benchmarks.peers.engines.catalogue import OURS
from benchmarks.peers.engines.edgec_engine import example_inputs
from benchmarks.peers.measure import Measurement, model_folder
from benchmarks.peers.models.catalogue import MODELS
from edgec import runtime

__all__ = ["explain"]

_CALLS = 10


def explain(measurement: Measurement, model: str, *, most: int = 20) -> Iterator[str]:
    """Compile the model with edgec, profile it on one thread, and say it line by line.

    One thread, so that a dispatch's time is its own work and not waiting for others.
    """
    folder = model_folder(model)
    built = measurement.build(OURS, model, folder)
    if isinstance(built, str):
        yield f"{model}: {built}"
        return
    profile = runtime.profile(
        folder / "edgec.vmfb",
        inputs=example_inputs(MODELS[model]),
        device="local-sync",
        calls=_CALLS,
    )
    calls = profile.dispatches[0].count and min(d.count for d in profile.dispatches)
    yield f"{model}: {1e3 * profile.total / calls:.3f} ms a call in dispatches, one thread"
    yield f"{'ms a call':>10} {'share':>6} {'times':>6} {'ms each':>9}  dispatch"
    for dispatch in profile.dispatches[:most]:
        yield (
            f"{1e3 * dispatch.total / calls:10.3f} {dispatch.total / profile.total:6.1%} "
            f"{dispatch.count // calls:6d} {1e3 * dispatch.minimum:9.3f}  {dispatch.name}"
        )
    rest = sum(dispatch.total for dispatch in profile.dispatches[most:])
    if rest:
        yield f"{1e3 * rest / calls:10.3f} {rest / profile.total:6.1%} {'':16}  the rest"
