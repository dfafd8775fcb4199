"""Tiles of a GPU's products and convolutions, each tried alone in a module.

Kernels of a GPU share code between sizes, so that their times cannot be told apart in a program.
Those come first that are the longest by the model of cost.
"""

import json
from dataclasses import replace

from edgec.runtime.errors import DeviceMissing, EdgecError
from edgec.toolchain.kernels.gpu.tiles import Tile, parse_key
from edgec.toolchain.tuning.run import Run, text_of
from edgec.toolchain.tuning.tiles import expected, tiles_for

__all__ = ["try_tiles"]

_MOST_KERNELS = 16


def try_tiles(run: Run) -> bool:
    """Try tiles of a GPU's kernels, each kernel alone in a module; whether all were tried."""
    counts: dict[str, int]
    (counts,) = run.pool.run([("tiled", ())])
    target = run.subject.target
    keys = {text: found for text in counts if (found := parse_key(text)) is not None}
    longest = sorted(keys, key=lambda text: -counts[text] * expected(keys[text], target))
    complete = True
    for text in longest[:_MOST_KERNELS]:
        known = run.profile.cut_times.get(text, {})
        # The first is the model's own choice.
        others = tiles_for(keys[text], target)[1:]
        candidates = [None, *others] if others else []
        for tile in candidates:
            name = "" if tile is None else text_of(tile)
            if name in known:
                continue
            if run.room <= 0:
                complete = False
                break
            if not _time_tile(run, text, tile, name):
                return False
    return _merge_tiles(run, longest) and complete


def _time_tile(run: Run, key: str, tile: Tile | None, name: str) -> bool:
    """Time one tile; whether there was the time."""
    run.say(f"a tile of {key}")
    seconds: float | None
    try:
        (seconds,) = run.pool.run([("tile_time", (key, tile, run.room))])
    except DeviceMissing:
        raise
    except EdgecError:
        seconds = float("inf")
    if seconds is None:
        return False
    run.note(key, name, seconds)
    run.tried += 1
    run.save()
    return True


def _merge_tiles(run: Run, keys: list[str]) -> bool:
    """Try the tiles that won, together, in the program itself."""
    best = {key: text for key in keys if (text := run.best_text(key)) is not None}
    winners = {key: Tile.from_json(json.loads(text)) for key, text in best.items()}
    base = run.profile.winner
    settings = replace(base, tiles={**base.tiles, **winners})
    known = {trial.settings.key for trial in run.profile.trials}
    if settings.key == base.key or settings.key in known:
        return True
    if run.room <= 0:
        return False
    (trial,) = run.attempt([("the best tiles of all kernels", settings)])
    return trial is not None
