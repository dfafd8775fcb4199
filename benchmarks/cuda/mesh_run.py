"""Modules for one GPU and for two, run, proved and measured beside XLA on the same cards.

Run on the machine with the GPUs: `python mesh_run.py FOLDER --json FILE`. The folder holds what
`mesh_modules.py` compiled. Needs edgec without its compiler, `iree-base-runtime`, JAX with CUDA
and NCCL; the rows `platform`, of JAX on edgec's devices, need the compiler too. Every row has a
process of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from mesh_models import NETWORKS, WAYS, callable_of, inputs_of, spec_of, weights_of

CARDS = ("cuda://0", "cuda://1")
SECONDS = 2.0
_BEGUN = time.monotonic()
_ROW, _LEAST = 200.0, 20.0
"""Seconds that a row may take, and without which it does not begin."""


def main() -> None:
    """All rows, or with `--row` one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--row")
    parser.add_argument("--only", choices=NETWORKS, help="the network to measure; else all")
    parser.add_argument("--kinds", default="xla,edgec,platform", help="which of ROWS, XLA first")
    parser.add_argument("--seconds", type=float, default=560.0, help="that all rows may take")
    parser.add_argument("--answers", type=Path, default=Path(tempfile.gettempdir(), "mesh_answers"))
    options = parser.parse_args()
    options.answers.mkdir(exist_ok=True)
    if options.row is not None:
        name, *rest = options.row.split("/")
        found = ROWS[name](options.folder, options.answers, *rest)
        options.json.write_text(json.dumps(found))
        return
    rows: dict[str, Any] = {"machine": _machine()}
    names = [options.only] if options.only else list(NETWORKS)
    for row in [
        *(() if options.only else ("collectives",)),
        *(f"{kind}/{name}" for name in names for kind in options.kinds.split(",")),
    ]:
        rows[row] = _apart(row, options)
        print(row, json.dumps(rows[row]), flush=True)
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def _apart(row: str, options: argparse.Namespace) -> Any:
    """A row in a process of its own: what one does wrong costs it alone."""
    path = options.answers / "row.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, __file__, str(options.folder), "--json", str(path), "--row", row]
    command += ["--answers", str(options.answers)]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if row.startswith("platform"):
        cards = ["cuda"] * min(2, _machine().count("NVIDIA"))
        environment |= {"JAX_PLATFORMS": "edgec", "EDGEC_JAX_DEVICES": ",".join(cards)}
    start = time.monotonic()
    left = min(_ROW, _BEGUN + options.seconds - start)
    if left < _LEAST:
        return {"failed": "no time is left"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=left, check=False, env=environment
        )
    except subprocess.TimeoutExpired as late:
        said = late.stderr or b""
        return {"failed": f"took longer than {left:.0f} s", "said": str(said[-1500:])}
    if done.returncode or not path.exists():
        return {"failed": f"exit code {done.returncode}", "said": done.stderr[-3000:]}
    return {**json.loads(path.read_text()), "took_s": round(time.monotonic() - start)}


def _machine() -> str:
    told = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    links = subprocess.run(
        ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, check=False
    )
    return told.stdout + links.stdout


def _times(call: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of calls, each waited for."""
    for _ in range(5):
        call()
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return {
        "median_ms": round(statistics.median(taken), 4),
        "least_ms": round(min(taken), 4),
        "calls": len(taken),
    }


def _error(answer: np.ndarray, truth: np.ndarray) -> float:
    found = np.asarray(answer, np.float32).ravel() - truth.ravel()
    return float(f"{np.linalg.norm(found) / np.linalg.norm(truth):.3g}")


def xla(folder: Path, answers: Path, name: str) -> dict[str, Any]:
    """XLA on one card and on two, each way; its answer in f32 is everybody's truth."""
    import jax

    del folder
    network, weights, x = callable_of(name), weights_of(name), inputs_of(name)
    one = jax.devices()[0]
    floats = np.issubdtype(x.dtype, np.floating)
    with jax.default_matmul_precision("highest"):
        wide = {key: jax.device_put(w.astype(np.float32), one) for key, w in weights.items()}
        exact = jax.device_put(x.astype(np.float32) if floats else x, one)
        truth = np.asarray(jax.jit(network)(wide, exact))
    del wide
    np.save(answers / f"{name}.npy", truth)
    return _by_jax(name, truth)


def platform(folder: Path, answers: Path, name: str) -> dict[str, Any]:
    """The same by JAX on edgec's platform."""
    import edgec.plugins.jax

    del folder
    edgec.plugins.jax.initialize()
    return _by_jax(name, np.load(answers / f"{name}.npy"))


def _by_jax(name: str, truth: np.ndarray) -> dict[str, Any]:
    import jax
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P

    network, weights, x = callable_of(name), weights_of(name), inputs_of(name)
    one = jax.devices()[0]
    found: dict[str, Any] = {"jax": jax.__version__, "devices": [str(d) for d in jax.devices()]}
    here = {key: jax.device_put(w, one) for key, w in weights.items()}
    given, whole = jax.device_put(x, one), jax.jit(network)
    start = time.perf_counter()
    answer = np.asarray(whole(here, given))
    found["one"] = {
        "first_s": round(time.perf_counter() - start, 2),
        "error": _error(answer, truth),
        **_times(lambda: whole(here, given).block_until_ready()),
    }
    for axis in WAYS[name] if len(jax.devices()) > 1 else ():
        mesh = jax.make_mesh((2,), (axis,), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
        with jax.set_mesh(mesh):
            there = {
                key: jax.device_put(w, NamedSharding(mesh, spec_of(key, (axis,))))
                for key, w in weights.items()
            }
            texts = NamedSharding(mesh, P("data") if axis == "data" else P())
            put = jax.device_put(x, texts)
            both = jax.jit(network, out_shardings=texts)
            start = time.perf_counter()
            answer = np.asarray(both(there, put))
            found[axis] = {
                "first_s": round(time.perf_counter() - start, 2),
                "error": _error(answer, truth),
                **_times(
                    lambda both=both, there=there, put=put: both(there, put).block_until_ready()
                ),
            }
    return found


def edgec(folder: Path, answers: Path, name: str) -> dict[str, Any]:
    """edgec on one card and on two, each way."""
    from edgec.runtime import load
    from edgec.runtime.mesh.folder import MeshFolder
    from edgec.runtime.mesh.shards import cut
    from edgec.toolchain.weights_file import write_weights

    weights, x = weights_of(name), inputs_of(name)
    truth = np.load(answers / f"{name}.npy")
    found: dict[str, Any] = {}
    file = answers / "weights.safetensors"
    write_weights({f"weights.{key}": w for key, w in weights.items()}, file)
    start = time.perf_counter()
    with load(folder / f"{name}.vmfb", device=CARDS[0], weights=file) as single:
        put = single.device.put(x)
        answer = single["main"].call_flat([put])[0].numpy()
        found["one"] = {
            "load_s": round(time.perf_counter() - start, 2),
            "error": _error(answer, truth),
            **_times(lambda: single["main"].call_flat([put])),
        }
    for path in sorted(folder.glob(f"{name}.*.mesh")):
        axis, plan = path.name.split(".")[1], MeshFolder(path).plan
        parts: list[dict[str, np.ndarray]] = [{} for _ in CARDS]
        for key, how in plan.weights.items():
            pieces = cut(weights[key.removeprefix("weights.")], how, plan.mesh)
            for device, piece in enumerate(pieces):
                parts[device][key] = np.ascontiguousarray(piece)
        for device, name_of in enumerate(MeshFolder(path).weights):
            if name_of is not None:
                write_weights(parts[device], name_of)
        said = plan.routes["main"].collectives
        found[axis] = {
            "collectives": len(said),
            **_pair(path, x, truth, by_parts=False),
            **({"by_parts": _pair(path, x, truth, by_parts=True)} if said else {}),
        }
    return found


def _pair(path: Path, x: np.ndarray, truth: np.ndarray, *, by_parts: bool) -> dict[str, Any]:
    """A program on both cards: each one's whole way by itself, or its parts called one by one."""
    from edgec.runtime.mesh.running import load_mesh

    start = time.perf_counter()
    with load_mesh(path, CARDS, by_parts=by_parts) as pair:
        answer = pair.main(x)
        shards = pair.main.put(x)
        return {
            "spoken": pair.spoken,
            "notes": pair.notes,
            "load_s": round(time.perf_counter() - start, 2),
            "error": _error(answer, truth),
            **_times(lambda: pair.main.on_devices(shards)),
            "whole_ms": _times(lambda: pair.main(x))["median_ms"],
            "error_after": _error(pair.main(x), truth),
        }


def collectives(folder: Path, answers: Path) -> dict[str, Any]:
    """Every collective on two cards against NumPy, and what sums of a size cost."""
    from edgec.runtime import Device
    from edgec.runtime.mesh.collectives import collect
    from edgec.runtime.mesh.nccl import Nccl
    from edgec.runtime.mesh.nccl_channel import NcclChannel
    from edgec.runtime.mesh.plan import Collective

    del folder, answers
    both, pairs = ((0, 1),), ((0, 1), (1, 0))

    def step(kind: str, groups: Any = both, operation: str = "") -> Collective:
        return Collective(kind=kind, input=0, output=1, groups=groups, operation=operation)

    sums = ("add", "multiply", "maximum", "minimum")
    steps = [step(kind, operation=o) for kind in ("all_reduce", "reduce_scatter") for o in sums]
    steps += [step("all_gather"), step("all_to_all"), step("collective_broadcast")]
    steps += [step("collective_permute", pairs), step("collective_permute", ((0, 1),))]
    steps += [step("all_reduce", ((1, 0),), "add")]
    devices = [Device.open(uri) for uri in CARDS]
    nccl = Nccl()
    start = time.perf_counter()
    channel = NcclChannel(devices, [d.backend.context for d in devices], {}, steps, nccl)
    found: dict[str, Any] = {"nccl": nccl.version, "library": nccl.path}
    found["communicators_s"] = round(time.perf_counter() - start, 2)

    def spoken(one: Collective, given: Sequence[Any]) -> list[Any]:
        return list(pool.map(channel.collect, [one] * 2, range(2), given))

    random, right = np.random.default_rng(0), 0
    wrong: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        for one in steps:
            for dtype in ("f2", "f4", "f8", "i4", "u1", "i8"):
                arrays = [(random.standard_normal((8, 1000)) * 3).astype(dtype) for _ in CARDS]
                given = [d.put(a) for d, a in zip(devices, arrays, strict=True)]
                size = given[0].nbytes
                _reserve(channel, {size: 2, size * 2: 1, size // 2: 1})
                made, wanted = spoken(one, given), collect(one, arrays)
                close = [
                    np.allclose(m.numpy(), w, rtol=2e-3 if dtype == "f2" else 1e-6)
                    for m, w in zip(made, wanted, strict=True)
                ]
                right += all(close)
                wrong += [] if all(close) else [f"{one.kind} {one.operation} {dtype}"]
        found |= {"right": right, "wrong": wrong, "sums": {}}
        for size in (4096, 1 << 20, 1 << 24, 1 << 25, 1 << 26):
            given = [d.put(np.zeros(size // 2, np.float16)) for d in devices]
            _reserve(channel, {size: 2})
            taken = _times(lambda given=given: spoken(steps[0], given))
            found["sums"][str(size)] = taken["median_ms"]
    channel.close()
    return found


def _reserve(channel: Any, sizes: dict[int, int]) -> None:
    """Buffers, before anybody waits for anybody."""
    for speaker in channel._speakers:
        speaker.context.enter()
        speaker.reserve(Counter(sizes))


ROWS: dict[str, Callable[..., dict[str, Any]]] = {
    "collectives": collectives,
    "xla": xla,
    "edgec": edgec,
    "platform": platform,
}

if __name__ == "__main__":
    main()
