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
    # The fastest of each counts: on a busy machine the others hold what else ran.
    costs = {d.name: d.count // _CALLS * 1e3 * d.minimum for d in profile.dispatches}
    whole = sum(costs.values())
    slowest = sorted(profile.dispatches, key=lambda d: -costs[d.name])
    yield f"{model}: {whole:.3f} ms a call in {len(costs)} dispatches, one thread"
    yield f"{'ms a call':>10} {'share':>6} {'times':>6} {'ms each':>9}  dispatch"
    for dispatch in slowest[:most]:
        cost = costs[dispatch.name]
        yield (
            f"{cost:10.3f} {cost / whole:6.1%} {dispatch.count // _CALLS:6d} "
            f"{1e3 * dispatch.minimum:9.3f}  {dispatch.name}"
        )
    rest = sum(costs[dispatch.name] for dispatch in slowest[most:])
    if rest:
        yield f"{rest:10.3f} {rest / whole:6.1%} {'':16}  the rest"
