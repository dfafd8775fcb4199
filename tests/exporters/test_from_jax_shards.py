"""Programs of several devices as programs of one: every collective, and a sample with digits.

JAX has several devices only if it is told so before it begins, so a process of its own exports.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.runtime import load
from edgec.toolchain import compile_with_report

ROOT = Path(__file__).parents[2]
EXPORT = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", 4)
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P
from edgec.exporters import Bundle, Entry, export, export_source

mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
random = np.random.default_rng(0)
X = random.standard_normal((8, 16)).astype(np.float32)
W = random.standard_normal((16, 12)).astype(np.float32)
cut, rows = P("x", "y"), P("x", None)


def shards(function, given, out, **more):
    return jax.shard_map(function, mesh=mesh, in_specs=given, out_specs=out, **more)


def running(i, total):
    return total + lax.pcast(lax.psum(total, "x"), "x", to="varying")


product = shards(lambda x, w: lax.psum(x @ w, "y"), (cut, P("y", None)), rows)
gathered = shards(
    lambda x, w: x @ lax.all_gather(w, "y", axis=0, tiled=True), (rows, P("y", None)), rows,
    check_vma=False,
)
functions = {
    "product": (product, X, W),
    "gathered": (gathered, X, W),
    "scattered": (
        shards(
            lambda x, w: lax.psum_scatter(x @ w, "y", scatter_dimension=1, tiled=True),
            (cut, P("y", None)),
            cut,
        ),
        X,
        W,
    ),
    "permuted": (
        shards(lambda x: lax.ppermute(x, "x", [(0, 1), (1, 0)]) + lax.axis_index("y"), cut, cut),
        X,
    ),
    "both": (shards(lambda x: x + lax.axis_index(("x", "y")), P(("x", "y")), P(("x", "y"))), X),
    "exchanged": (shards(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), rows, rows), X),
    "looped": (shards(lambda x: lax.fori_loop(0, 3, running, x), cut, cut), X),
    "mean": (shards(lambda x: lax.pmean(x.sum(), ("x", "y")), cut, P()), X),
    "slope": (jax.grad(lambda x, w: (product(x, w) ** 2).sum()), X, W),
}
entries = [Entry(call, tuple(given), name=name) for name, (call, *given) in functions.items()]
export(Bundle(tuple(entries))).save(sys.argv[1])
export_source(sys.argv[2]).save(sys.argv[3])
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    sample = f"{ROOT / 'samples/sharded_digits/model.py'}:reader"
    arguments = [str(folder / "all.mlirbc"), sample, str(folder / "digits.mlirbc")]
    subprocess.run([sys.executable, "-c", EXPORT, *arguments], check=True, cwd=folder)
    return folder


def test_one_device_gives_what_four_give(exported):
    made = compile_with_report(exported / "all.mlirbc", "cpu")
    assert made.report.check.startswith("checked")
    random = np.random.default_rng(0)
    x = random.standard_normal((8, 16)).astype(np.float32)
    w = random.standard_normal((16, 12)).astype(np.float32)
    with load(made.module.path) as loaded:
        for name in ("product", "gathered", "scattered"):
            np.testing.assert_allclose(getattr(loaded, name)(x, w), x @ w, rtol=1e-4, atol=1e-4)
        swapped = np.concatenate([x[4:], x[:4]]) + np.repeat([0, 1], 8)
        np.testing.assert_allclose(loaded.permuted(x), swapped, rtol=1e-6)
        each = x + np.repeat(np.arange(4), 2)[:, None]
        np.testing.assert_allclose(loaded.both(x), each, rtol=1e-6)
        np.testing.assert_allclose(loaded.mean(x), x.sum() / 4, rtol=1e-4)
        np.testing.assert_allclose(loaded.slope(x, w), 2 * x @ w @ w.T, rtol=1e-3, atol=1e-3)


def test_the_sample_reads_digits(exported):
    path = ROOT / "samples/sharded_digits/model.py"
    # This process may have its devices already.
    text = path.read_text().replace('jax.config.update("jax_num_cpu_devices", 4)', "")
    sample: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), sample)
    images, labels = sample["held_out"]()
    inner, bias, outer = sample["learnt"]()
    made = compile_with_report(exported / "digits.mlirbc", "cpu")
    assert made.report.check.startswith("checked")
    with load(made.module.path) as loaded:
        found = np.asarray(loaded.main(images))
    np.testing.assert_allclose(found, np.tanh(images @ inner + bias) @ outer, atol=1e-4)
    assert (found.argmax(1) == labels).mean() > 0.9
