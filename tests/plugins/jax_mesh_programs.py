"""JAX programs over several devices, on edgec's and on XLA's CPUs: what test_jax_mesh.py runs.

python jax_mesh_programs.py PROGRAM…

Most are functions of a mesh that give arrays; these must be XLA's, and cut as XLA cuts them.
"""

import functools
import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax

import edgec.plugins.jax
from edgec.runtime.errors import UsageError

DEVICES = 1 + os.environ["EDGEC_JAX_DEVICES"].count(",")
_random = np.random.default_rng(0)


def _draw(*shape: int) -> np.ndarray:
    return _random.standard_normal(shape).astype(np.float32)


# --- programs whose shardings say all ------------------------------------------------------------

_LAYERS = ((8, 16), (16, 4))
_WEIGHTS = [_draw(*shape) / np.float32(4) for shape in _LAYERS]
_IMAGES, _LABELS = _draw(32, 8), _draw(32, 4)


def data_parallel_step(mesh: Mesh) -> Any:
    """A step of training, its batch cut along the devices and its weights whole."""

    def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    @jax.jit
    def step(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, x, y)
        return value, [w - 0.1 * s for w, s in zip(weights, slopes, strict=True)]

    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P(mesh.axis_names))
    weights = jax.device_put(_WEIGHTS, whole)
    x, y = jax.device_put(_IMAGES, rows), jax.device_put(_LABELS, rows)
    values = []
    for _ in range(3):
        value, weights = step(weights, x, y)
        values.append(value)
    return values, weights


_WIDTH, _HEADS, _TOKENS = 32, 4, 8
_QKV = [_draw(_WIDTH, _HEADS, _WIDTH // _HEADS) / np.float32(6) for _ in range(3)]
_OUT, _UP, _DOWN = _draw(_HEADS, 8, _WIDTH), _draw(_WIDTH, 64), _draw(64, _WIDTH)
_TEXTS = _draw(4, _TOKENS, _WIDTH)
_KERNEL = _draw(5, 3, 3, 3)


def transformer_block(mesh: Mesh) -> Any:
    """Texts cut along one axis, heads and the inner layer along the other."""

    def cut(x: jax.Array, *axes: str | None) -> jax.Array:
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*axes)))

    def norm(x: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)

    @jax.jit
    def block(x: jax.Array) -> jax.Array:
        h = norm(cut(x, "x"))
        q, k, v = (cut(jnp.einsum("btd,dhe->bhte", h, w), "x", "y") for w in _QKV)
        scores = jnp.einsum("bhte,bhse->bhts", q, k) / np.sqrt(8)
        scores = jnp.where(jnp.tril(jnp.ones((_TOKENS, _TOKENS), bool)), scores, -1e9)
        read = jnp.einsum("bhts,bhse->bhte", jax.nn.softmax(scores), v)
        x = x + jnp.einsum("bhte,hed->btd", read, _OUT)
        inner = cut(jax.nn.gelu(norm(x) @ _UP), "x", None, "y")
        return x + inner @ _DOWN

    return block(jax.device_put(_TEXTS, NamedSharding(mesh, P("x"))))


def results_that_nobody_cuts(mesh: Mesh) -> Any:
    """Where the program does not say how arguments and results are cut, the executable does."""
    rows = jax.device_put(_draw_once(8, 12), NamedSharding(mesh, P("x", "y")))
    turned, total = jax.jit(lambda a, b: (a.T * 2 + b, jnp.sum(a, 1)))(rows, np.float32(3))
    return turned, total, rows + 1, rows @ rows.T, jnp.sort(rows, axis=0), rows[2:5]


def operations_along_axes_that_are_cut(mesh: Mesh) -> Any:
    """What a device cannot do with its part alone: largest numbers, places, neighbours, order."""

    @functools.partial(jax.jit, out_shardings=NamedSharding(mesh, P()))
    def computed(x: jax.Array, places: jax.Array, image: jax.Array, place: jax.Array) -> Any:
        rows = jnp.arange(8) % 3
        kernel = jnp.asarray(_KERNEL)
        return {
            "max": (x.max(0), x.min(0), x.prod(0), x.argmax(0), x.argmin(1), jnp.ptp(x)),
            "slope": jax.grad(lambda v: v.max())(x),
            "all": ((x > -9).all(0), (x > 1).any(0), (x * 9 + 99).astype(jnp.uint8).max(0)),
            "two": jax.lax.reduce(
                (x, x),
                (0.0, -np.inf),
                lambda p, q: (p[0] + q[0], jnp.maximum(p[1], q[1])),
                (0,),
            ),
            "rows": (x[places], x.at[places].max(7), x.at[places].add(x[:4]), x.at[1:3].set(0)),
            "slices": (
                jax.lax.dynamic_slice(x, (place, 0), (4, 6)),
                jax.lax.dynamic_update_slice(x, jnp.ones((2, 6)), (place, 0)),
                *(jnp.diff(x, axis=0), jnp.roll(x, 3, 0), x[::2], jnp.flip(x, 0), x[1:6]),
            ),
            "order": (jnp.sort(x, 0), jnp.median(x, 0), jnp.cumsum(x, 0), jax.lax.top_k(x.T, 3)),
            "segments": (
                jax.ops.segment_max(x, rows, num_segments=3),
                jax.ops.segment_sum(x, rows, num_segments=3),
            ),
            "windows": (
                jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME"),
                jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (1, 1), "SAME"),
                jax.lax.reduce_window(x, 0.0, jax.lax.add, (3, 2), (2, 1), "VALID"),
            ),
            "loops": (
                jax.lax.scan(lambda c, row: (c + row.sum(), c * row), jnp.float32(0), x),
                jax.lax.map(lambda row: row * row.max(), x),
            ),
            "random": x + jax.random.uniform(jax.random.key(3, impl="rbg"), x.shape),
            "branches": jax.lax.cond(place > 9, lambda v: v * 2, lambda v: v - 1, x),
            "uneven": jnp.concatenate([x, x[:3]]) * 2,
        }

    cut = NamedSharding(mesh, P("x", "y"))
    image = np.random.default_rng(2).standard_normal((4, 3, 8, 8)).astype(np.float32)
    return computed(
        jax.device_put(_draw_once(8, 6), cut),
        jax.device_put(np.int32([1, 5, 7, 0]), NamedSharding(mesh, P("x"))),
        jax.device_put(image, NamedSharding(mesh, P("y", None, "x"))),
        np.int32(3),
    )


def results_that_are_whole(mesh: Mesh) -> Any:
    whole = NamedSharding(mesh, P())
    rows = jax.device_put(_draw_once(8, 12), NamedSharding(mesh, P("x", "y")))
    gathered = jax.jit(lambda a: a, out_shardings=whole)(rows)
    return gathered, jax.jit(lambda a: (a.sum(), a * 2), out_shardings=whole)(rows)


def _draw_once(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


# --- programs that say what each device does -----------------------------------------------------


def collectives(mesh: Mesh) -> Any:
    columns = mesh.shape["y"]
    groups = [list(range(first, DEVICES, columns)) for first in range(columns)]

    def each(x: jax.Array) -> Any:
        here = jax.lax.axis_index("x") * columns + jax.lax.axis_index("y")
        ring = [(i, (i + 1) % 2) for i in range(2)]
        both = ("x", "y")
        return (
            jax.lax.psum(x, "x"),
            jax.lax.psum(x, ("x", "y")),
            jax.lax.pmean(x, "y"),
            jax.lax.pmax(x, "x"),
            jax.lax.pmin(x, ("x", "y")),
            jax.lax.all_gather(x, "y"),
            jax.lax.all_gather(x, "x", axis=1, tiled=True),
            jax.lax.psum_scatter(x, "y", tiled=True),
            jax.lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
            jax.lax.all_to_all(x, "x", 0, 0, tiled=True),
            jax.lax.all_to_all(x, "y", 1, 0, tiled=True),
            jax.lax.ppermute(x, "x", ring),
            jax.lax.ppermute(x, "y", [(columns - 1, 0)]),
            jax.lax.psum_scatter(x, both, tiled=True, axis_index_groups=groups),
            jax.lax.psum(x.max(), "x") + x,
            x + here,
        )

    spec = P("x", "y")
    work = jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    flat = jax.jit(lambda x: [r.reshape(r.shape[0], -1) for r in work(x)])
    return flat(_draw_once(8, 16))


def collectives_alone(mesh: Mesh) -> Any:
    """Nothing is computed: what GPUs are asked for whose kernels do not run."""
    columns = mesh.shape["y"]
    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]

    def each(x: jax.Array, n: jax.Array, z: jax.Array, b: jax.Array, h: jax.Array) -> Any:
        both = ("x", "y")
        return (
            *(jax.lax.psum(a, both) for a in (x, n, z, h)),
            *(f(x, axis) for f in (jax.lax.pmax, jax.lax.pmin) for axis in both),
            jax.lax.pmax(b, "x"),
            jax.lax.pmin(b, both),
            *(jax.lax.all_gather(a, "y", tiled=True) for a in (x, b)),
            jax.lax.psum_scatter(x, "x", tiled=True),
            jax.lax.psum_scatter(n, both, tiled=True),
            jax.lax.all_to_all(x, "y", 0, 0, tiled=True),
            jax.lax.ppermute(x, both, ring),
            jax.lax.ppermute(n, "y", [(0, columns - 1)]),
        )

    cut = P(("x", "y"))
    work = jax.shard_map(each, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
    x = _draw_once(16 * DEVICES)
    given = (x, (9 * x).astype(np.int32), x + 1j * x[::-1], x > 0, (9 * x).astype(np.int16))
    return jax.jit(work)(*jax.device_put(given, NamedSharding(mesh, cut)))


def axes_by_hand_and_not(mesh: Mesh) -> Any:
    """Devices say what they do along one axis, and the partitioner along the other."""

    def each(x: jax.Array) -> Any:
        largest = x.max(1, keepdims=True) + jax.lax.psum(x, "x").max()
        return largest, jax.lax.psum(x.sum(), "x"), jnp.sort(x, 1)

    work = jax.shard_map(
        each,
        mesh=mesh,
        axis_names={"x"},
        in_specs=P("x"),
        out_specs=(P("x"), P(), P("x")),
        check_vma=False,
    )
    given = jax.device_put(_draw_once(8, 6), NamedSharding(mesh, P("x", "y")))
    return jax.jit(work, out_shardings=NamedSharding(mesh, P()))(given)


def sums_of_every_type(mesh: Mesh) -> Any:
    def each(x: jax.Array) -> Any:
        total = [jax.lax.psum(x, "x"), jax.lax.psum(x, ("x", "y"))]
        ordered = not jnp.issubdtype(x.dtype, jnp.complexfloating)
        return [*total, *([jax.lax.pmax(x, "x"), jax.lax.pmin(x, "y")] if ordered else [])]

    work = jax.jit(
        jax.shard_map(each, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)
    )
    numbers = _draw_once(8, 8) * 50
    kinds = ("int8", "uint8", "int16", "int32", "uint32", "float32", "complex64")
    return [work(numbers.astype(kind)) for kind in kinds]


def numbers_of_sixteen_bits(mesh: Mesh) -> None:
    """16-bit floats are summed in f32 and rounded once, in the devices' order."""
    work = jax.jit(
        jax.shard_map(
            lambda x: jax.lax.psum(x, ("x", "y")), mesh=mesh, in_specs=P(("x", "y")), out_specs=P()
        )
    )
    for kind in (jnp.float16, jnp.bfloat16):
        given = np.concatenate([_draw_once(400), np.float32([1e-7, 3e4, 3e-5, -2e-6])])
        rows = np.stack([given * scale for scale in (1, 0.3, 1e-3, 0.6)]).astype(kind)
        wide = rows.astype(np.float32)
        total = ((wide[0] + wide[1]) + wide[2]) + wide[3]
        np.testing.assert_array_equal(
            np.asarray(work(rows))[0].view(np.uint16), total.astype(kind).view(np.uint16)
        )
    truths = np.array([[True, False], [False, False], [True, True], [False, False]])
    some = jax.jit(
        jax.shard_map(
            lambda x: jax.lax.pmax(x, ("x", "y")), mesh=mesh, in_specs=P(("x", "y")), out_specs=P()
        )
    )
    np.testing.assert_array_equal(some(truths)[0], [True, True])


def loops_of_fixed_rounds(mesh: Mesh) -> Any:
    """A ring: everyone's numbers come by everyone."""

    def each(x: jax.Array) -> jax.Array:
        def turn(i: jax.Array, carried: Any) -> Any:
            total, going = carried
            going = jax.lax.ppermute(going, "x", [(0, 1), (1, 0)])
            return total + going * (i + 1), going

        return jax.lax.fori_loop(0, 3, turn, (jnp.zeros_like(x), x))[0]

    spec = P("x", "y")
    return jax.jit(jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec))(_draw_once(4, 4))


def loops_that_speak(mesh: Mesh) -> Any:
    """How often they go round is in the numbers, which are cut, or summed over the devices."""

    def each(x: jax.Array) -> Any:
        def inner(x: jax.Array) -> jax.Array:
            def large(x: jax.Array) -> jax.Array:
                return jax.lax.psum(jnp.sum(x), ("x", "y")) > 20

            return jax.lax.while_loop(large, lambda x: x * 0.8 - jax.lax.pmax(x, "x") / 99, x)

        def step(carried: Any) -> Any:
            return inner(carried[0]) + 3, carried[1] + 1

        return jax.lax.while_loop(lambda c: jax.lax.pmax(c[1], "x") < 3, step, (x, 0))

    def different(x: jax.Array) -> jax.Array:
        """Rows of devices go round differently often, and only those of a row speak."""
        rounds = jax.lax.axis_index("x") + 2
        step = lambda c: (c[0] * 1.5 + jax.lax.psum(c[0], "y"), c[1] + 1)  # noqa: E731
        return jax.lax.while_loop(lambda c: c[1] < rounds, step, (x, 0))[0]

    def halved(x: jax.Array, rounds: jax.Array) -> Any:
        def step(carried: Any) -> Any:
            return carried[0] * 0.9 - jnp.mean(carried[0], 1, keepdims=True) / 9, carried[1] + 1

        alone = jax.lax.fori_loop(0, rounds, lambda i, v: v * 0.9 + i, x)
        return jax.lax.while_loop(lambda c: jnp.sum(c[0]) > 10, step, (x, 0)), alone

    cut = P("x", "y")
    out = (cut, P())
    x = jax.device_put(_draw_once(4, 4) + 3, NamedSharding(mesh, cut))
    rounds = jax.device_put(np.int32(5), NamedSharding(mesh, P()))
    by_hand = jax.shard_map(each, mesh=mesh, in_specs=cut, out_specs=out, check_vma=False)
    rows = jax.shard_map(different, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
    return jax.jit(by_hand)(x), jax.jit(rows)(x), jax.jit(halved)(x, rounds)


def branches_that_speak(mesh: Mesh) -> Any:
    def each(x: jax.Array, which: jax.Array) -> jax.Array:
        ways = [lambda v: jax.lax.psum(v, "x"), lambda v: v * 2, lambda v: jax.lax.pmean(v, "y")]
        y = jax.lax.switch(which, ways, x)
        large = jax.lax.psum(jnp.sum(y), ("x", "y")) > 1
        return jax.lax.cond(large, lambda v: jax.lax.all_gather(v, "x")[0] + x, lambda v: v - 1, y)

    x = _draw_once(4, 4)
    specs = {"in_specs": (P("x", "y"), P()), "out_specs": P("x", "y")}
    work = jax.jit(jax.shard_map(each, mesh=mesh, check_vma=False, **specs))
    return [work(x, np.int32(which)) for which in (0, 1, 2, 9, -1)]


def python_that_programs_call(mesh: Mesh) -> Any:
    """Once with whole arrays, and by hand each device with its own."""
    seen: list[Any] = []
    x = jax.device_put(_draw_once(4, 8), NamedSharding(mesh, P("x", "y")))

    def whole(x: jax.Array) -> Any:
        jax.debug.callback(lambda v: seen.append(np.asarray(v)), x * 2)
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        y = jax.pure_callback(lambda v: np.sort(np.asarray(v), 0), like, x)
        return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("y"))), y.sum(0)

    def each(x: jax.Array) -> jax.Array:
        here = jax.lax.axis_index("x") * mesh.shape["y"] + jax.lax.axis_index("y")
        jax.debug.callback(lambda i, v: seen.append((int(i), np.asarray(v))), here, x)
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda v: np.asarray(v) * 2, like, jax.lax.psum(x, "x"))

    sums = NamedSharding(mesh, P())
    found = jax.jit(whole, out_shardings=(NamedSharding(mesh, P("y")), sums))(x)
    jax.jit(lambda v: jax.debug.callback(lambda v: seen.append(np.asarray(v)), v))(x)
    jax.effects_barrier()
    np.testing.assert_array_equal(seen.pop(), x)
    np.testing.assert_array_equal(seen.pop(), np.asarray(x) * 2)
    assert not seen
    spec = {"in_specs": P("x", "y"), "out_specs": P(None, "y"), "check_vma": False}
    by_hand = jax.jit(jax.shard_map(each, mesh=mesh, **spec))(x)
    jax.effects_barrier()
    places = {device: i for i, device in enumerate(mesh.devices.flat)}
    own = {places[shard.device]: np.asarray(shard.data) for shard in x.addressable_shards}
    assert sorted(place for place, _ in seen) == sorted(own)
    for place, value in seen:
        np.testing.assert_array_equal(value, own[place])
    return found, by_hand


def arrays_that_are_not_summed(mesh: Mesh) -> Any:
    """`unreduced`: given, taken, added, and made of what is whole or cut."""
    by_type = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(by_type):
        a = jax.device_put(_draw_once(4, 8), P("x", "y"))
        b = jax.device_put(_draw_once(8, 2), P("y", None))
        sums = P("x", None, unreduced={"y"})
        parts = jax.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=sums))(a, b)
        twice = jax.jit(lambda u, a, b: u + jnp.einsum("ij,jk->ik", a, b, out_sharding=sums))
        both = jax.jit(lambda u: jax.sharding.reshard(u, P("x", "y")))(twice(parts, a, b))
        whole = jax.device_put(_draw_once(4), P(None, reduced={"x"}))
        grown = jax.jit(jax.grad(lambda w: (jax.sharding.reshard(w, P("x")) ** 2).sum()))(whole)
        assert grown.sharding.spec == P(None, unreduced={"x"}), grown.sharding
        held = [shard.data for each in (parts, grown) for shard in each.addressable_shards]
        return both, jax.sharding.reshard(grown, P()), held


def narrow_integers_and_tokens(mesh: Mesh) -> Any:
    """Of four bits, cut and gathered; a token goes in and out beside them."""
    whole = np.arange(-8, 8).astype(jnp.int4).reshape(4, 4)
    x = jax.device_put(whole, NamedSharding(mesh, P("x", "y")))
    assert np.array_equal(np.asarray(x), whole)

    def each(x: jax.Array) -> jax.Array:
        return jax.lax.all_gather(x + x, "x", axis=0, tiled=True)

    by_hand = jax.shard_map(
        each, mesh=mesh, in_specs=P("x", "y"), out_specs=P(None, "y"), check_vma=False
    )
    gathered = jax.jit(by_hand)(x)
    assert gathered.dtype == jnp.int4
    token, y = jax.jit(lambda v: (jax.lax.create_token(v), v.astype(np.float32).sum(0)))(x)
    _, z = jax.jit(lambda token, v: (jax.lax.after_all(token), v * 2))(token, y)
    return gathered.astype(np.int32), z


def two_meshes(mesh: Mesh) -> Any:
    """One program names the same devices as 2 x 2 and as 4, another by axes the other way round."""
    line = Mesh(mesh.devices.reshape(-1), ("d",))
    turned = Mesh(mesh.devices.T, ("x", "y"))
    x = jax.device_put(_draw_once(8, 4), NamedSharding(mesh, P("x", "y")))

    def work(x: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(x @ x.T, NamedSharding(line, P("d")))

    rows = jax.jit(work)(x)
    return rows, jax.device_put(rows, NamedSharding(turned, P("x", "y")))


def devices_in_another_order(mesh: Mesh) -> Any:
    turned = Mesh(mesh.devices[::-1, ::-1], mesh.axis_names)
    x = jax.device_put(_draw_once(4, 8), NamedSharding(turned, P("y", "x")))
    return jax.jit(lambda a: (a @ a.T, a.sum(0)))(x)


def devices_in_any_order(mesh: Mesh) -> Any:
    """Reversed, and so that no axes give them; arrays go from one order to another, and back."""
    devices = mesh.devices.reshape(-1)
    line, turned = (Mesh(devices[::step], ("d",)) for step in (1, -1))
    grid = Mesh(devices[np.array([2, 0, 3, 1])].reshape(2, 2), ("u", "v"))
    x = jax.device_put(_draw_once(8, 4), NamedSharding(turned, P("d")))

    def each(x: jax.Array) -> jax.Array:
        here = jax.lax.axis_index("u") * 10 + jax.lax.axis_index("v")
        return jax.lax.psum(x, "u") + jax.lax.ppermute(x, "v", [(0, 1)]) * here

    cut = P("u", "v")
    by_hand = jax.shard_map(each, mesh=grid, in_specs=cut, out_specs=cut, check_vma=False)
    moved = jax.device_put(x, NamedSharding(grid, P("v", "u")))
    own = jax.device_put(moved, NamedSharding(line, P(None, "d")))
    back = jax.device_put(own, NamedSharding(turned, P("d")), donate=True)
    assert own.is_deleted()
    products = jax.jit(lambda a: (a @ a.T, a.sum(0), a * 2))
    return products(x), products(moved), jax.jit(by_hand)(moved), back + x, x[3:5]


def meshes_that_do_not_fit(mesh: Mesh) -> Any:
    """Six devices as 2 x 3 and as 3 x 2 in one program, and their sum whole."""
    six = mesh.devices.reshape(-1)[:6]
    wide, high = Mesh(six.reshape(2, 3), ("x", "y")), Mesh(six.reshape(3, 2), ("u", "v"))

    def work(x: jax.Array) -> Any:
        turned = jax.lax.with_sharding_constraint(x @ x.T, NamedSharding(high, P("v", "u")))
        return jax.lax.with_sharding_constraint(turned * 2, NamedSharding(high, P("u"))), turned

    shardings = NamedSharding(wide, P("y")), NamedSharding(high, P("u", "v"))
    x = jax.device_put(_draw_once(6, 12), NamedSharding(wide, P("x", "y")))
    found = jax.jit(work, out_shardings=shardings)(x)
    return *found, jax.device_put(x, NamedSharding(high, P("v", "u")))


def arrays_cut_anew(mesh: Mesh) -> Any:
    """From any cut along axes of four and two devices to any other; products cut along both."""
    grid = Mesh(mesh.devices.reshape(4, 2), ("x", "y"))
    cuts = [("x", "y"), ("y", "x"), (("x", "y"),), (("y", "x"),), (None, "x"), (None, ("x", "y"))]
    cuts += [("y",), ("x",)]
    whole = _draw_once(8, 8)
    given = [jax.device_put(whole, NamedSharding(grid, P(*cut))) for cut in cuts]
    wanted = [NamedSharding(grid, P(*cut)) for cut in cuts[1:] + cuts[:1]]
    across = [NamedSharding(grid, P(*cut)) for cut in cuts[3:] + cuts[:3]]

    def work(*arrays: jax.Array) -> Any:
        return arrays, [a * 2 for a in arrays], jnp.einsum("ij,kj->ik", arrays[-3], arrays[-3])

    product = NamedSharding(grid, P())
    cube = jax.device_put(_draw_once(4, 2, 8), NamedSharding(grid, P(None, "y", "x")))
    return (
        jax.jit(work, out_shardings=(tuple(wanted), across, product))(*given),
        jax.jit(lambda c: jnp.einsum("ijk,ljk->il", c, c), out_shardings=product)(cube),
    )


def arrays_not_summed_along_four(mesh: Mesh) -> Any:
    """`unreduced` along an axis of four devices: made of a product, and of what is whole or cut."""
    kinds = (AxisType.Explicit,) * 2
    with jax.set_mesh(Mesh(mesh.devices.reshape(4, 2), ("x", "y"), axis_types=kinds)):
        a, b = (
            jax.device_put(_draw_once(2, 8), P("y", "x")),
            jax.device_put(_draw_once(8, 4), P("x")),
        )
        sums = P("y", None, unreduced={"x"})
        parts = jax.jit(lambda a, b: jnp.einsum("ij,jk->ik", a, b, out_sharding=sums))(a, b)
        both = jax.jit(lambda u: jax.sharding.reshard(u + u, P("y", "x")))(parts)
        whole = jax.device_put(_draw_once(8), P(None, reduced={"x"}))
        grown = jax.jit(jax.grad(lambda w: (jax.sharding.reshard(w, P("x")) ** 2).sum()))(whole)
        held = [shard.data for each in (parts, grown) for shard in each.addressable_shards]
        return both, jax.sharding.reshard(grown, P()), held


def some_of_the_devices(mesh: Mesh) -> Any:
    two = Mesh(mesh.devices[1], ("x",))
    one = Mesh(mesh.devices[1, :1], ("x",))
    three = Mesh(mesh.devices.flat[[3, 0, 2]], ("x",))
    here = jax.device_put(_draw_once(6, 3), NamedSharding(two, P("x")))
    alone = jax.shard_map(
        lambda x: jax.lax.psum(x, "x") * 2, mesh=one, in_specs=P("x"), out_specs=P()
    )
    apart = jax.device_put(_draw_once(6, 3), NamedSharding(three, P("x")))
    sums = jax.jit(lambda a: (a.sum(0), a @ a.T))
    return (
        sums(here),
        jax.jit(alone)(_draw_once(4)),
        sums(apart),
        jax.device_put(apart, one.devices[0]),
    )


def pmap(mesh: Mesh) -> Any:
    work = jax.pmap(
        lambda x: x / jax.lax.psum(x, "d"), axis_name="d", devices=list(mesh.devices.flat)
    )
    return work(_draw_once(DEVICES, 3))


# --- arrays --------------------------------------------------------------------------------------


def arrays_in_parts(mesh: Mesh) -> Any:
    x = _draw_once(8, 4)
    rows = jax.device_put(x, NamedSharding(mesh, P("x")))
    assert [shard.data.shape for shard in rows.addressable_shards] == [(4, 4)] * DEVICES
    np.testing.assert_array_equal(rows.addressable_shards[-1].data, x[4:])
    parts = [
        jax.device_put(part, device)
        for part, device in zip(np.split(x, DEVICES), mesh.devices.flat, strict=True)
    ]
    cut = NamedSharding(mesh, P(("x", "y")))
    whole = jax.make_array_from_single_device_arrays(x.shape, cut, parts)
    np.testing.assert_array_equal(whole, x)
    again = jax.device_put(rows, NamedSharding(mesh, P("y", "x")))
    moved = jax.device_put(rows, mesh.devices[0, 0])
    made = jax.make_array_from_callback(x.shape, cut, lambda place: x[place])
    return rows, whole, again, moved, made, again + rows


def donated_arrays(mesh: Mesh) -> Any:
    x = jax.device_put(_draw_once(8, 4), NamedSharding(mesh, P("x")))
    made = jax.jit(lambda a: a + 1, donate_argnums=0).lower(x).compile()
    y = made(x)
    assert x.is_deleted()
    if mesh.devices.flat[0].platform == "edgec":
        assert made.memory_analysis().output_size_in_bytes == y.addressable_shards[0].data.nbytes
    return y


def calls_that_go_on(mesh: Mesh) -> Any:
    """Calls behind each other, of several devices and of one, each needing the one before."""
    x = jax.device_put(_draw_once(256, 256) / 16, NamedSharding(mesh, P("x", "y")))
    product = jax.jit(lambda a: a @ a / 4)
    found = []
    for turn in range(6):
        x = product(x)
        alone = jax.device_put(x, mesh.devices.flat[turn % DEVICES])
        found.append(jax.jit(jnp.sum)(alone))
    return x, found


def nothing_at_all(mesh: Mesh) -> Any:
    none = jax.device_put(np.zeros((0, 4), np.float32), NamedSharding(mesh, P("x", "y")))
    whole = NamedSharding(mesh, P())
    return jax.jit(lambda a: (a * 2, a.sum(0)), out_shardings=whole)(none)


# --- what only edgec's platform is asked ----------------------------------------------------------


def refusal_with_its_line(mesh: Mesh) -> None:
    shape = jax.ShapeDtypeStruct((4, 4), np.float32)
    x = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, P("x")))
    said = _refused(lambda: jax.jit(lambda x: jax.ffi.ffi_call("unknown", shape)(x) + 1)(x))
    assert "stablehlo.custom_call is of arrays that are cut" in said, said
    assert "jax_mesh_programs.py" in said, said


def what_programs_say_of_themselves(mesh: Mesh) -> None:
    """What a device computes as HLO, with the collectives that XLA's has, and what it costs."""

    def each(x: jax.Array) -> Any:
        there = jax.lax.ppermute(x, "x", [(0, 1), (1, 0)])
        first = (x[0, 0] > 0).astype(np.int32)  # which nobody knows before a call
        step = lambda c: (c[0] + 1, jax.lax.psum(c[1] * 2, "y"))  # noqa: E731
        total = jax.lax.while_loop(lambda c: c[0] < 3, step, (first, there))[1]
        return jax.lax.all_gather(total, "x")

    def made(mesh: Mesh, work: Callable[..., Any]) -> Any:
        given = jax.ShapeDtypeStruct((8, 16), np.float32, sharding=NamedSharding(mesh, P("x", "y")))
        return jax.jit(work).lower(given).compile()

    theirs = Mesh(np.array(jax.devices("cpu")).reshape(mesh.devices.shape), mesh.axis_names)
    spec = {"in_specs": P("x", "y"), "out_specs": P(None, "x", "y"), "check_vma": False}
    own, other = (made(m, jax.shard_map(each, mesh=m, **spec)).as_text() for m in (mesh, theirs))
    for kind in (" collective-permute(", " all-reduce(", " all-gather(", " while("):
        assert own.count(kind) == other.count(kind) == 1, (kind, own, other)
    assert "entry_computation_layout={(f32[4,8]{1,0})" in own, own
    assert "num_partitions=4" in own, own
    product = made(mesh, lambda a: a @ a.T)
    # Of eight rows each device has four, and of sixteen columns eight.
    assert product.cost_analysis()["flops"] == 2 * 4 * 8 * 8
    assert "f32[8,16]" not in product.as_text(), product.as_text()
    gathered = jax.jit(lambda a: a, out_shardings=NamedSharding(mesh, P())).lower(
        jax.ShapeDtypeStruct((8, 16), np.float32, sharding=NamedSharding(mesh, P("x")))
    )
    costs, memory = gathered.compile().cost_analysis(), gathered.compile().memory_analysis()
    assert costs["flops"] == 0
    assert costs["bytes accessed"] >= (4 + 8) * 16 * 4
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (256, 512)


def devices_that_do_not_agree(mesh: Mesh) -> None:
    """A sum over devices of which some have left the loop."""

    def each(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda v: v[0] < 9, lambda v: jax.lax.psum(v, "x") + 1, x)

    work = jax.shard_map(each, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    said = _refused(lambda: jax.block_until_ready(jax.jit(work)(np.array([1.0, 1.0, 9.0, 9.0]))))
    assert "in another round of a loop" in said, said


def program_of_one_device_as_a_module(mesh: Mesh) -> None:
    """A program of several devices has no module of its own to give away."""
    cut = NamedSharding(mesh, P("x"))
    rows = jax.device_put(_draw_once(8, 4), cut)
    said = ""
    try:
        edgec.plugins.jax.compiled(jax.jit(lambda a: a * 2), rows, output="never.vmfb")
    except UsageError as error:
        said = str(error)
    assert "runs on 4 devices" in said, said
    assert not Path("never.vmfb").exists()


def replicas(mesh: Mesh) -> None:
    """Copies of a program that run side by side are not what shardings say."""
    from jax._src import compiler

    lowered = jax.jit(lambda a: a * 2).lower(np.float32([1, 2])).compiler_ir("stablehlo")
    devices = _jax.DeviceList(tuple(mesh.devices.flat[:2]))
    options = compiler.get_compile_options(num_replicas=2, num_partitions=1)
    client = mesh.devices.flat[0].client
    said = _refused(
        lambda: compiler.backend_compile_and_load(client, lowered, devices, options, [])
    )
    assert "the program has 2 replicas" in said, said
    assert "use jax.jit with shardings, or jax.shard_map" in said, said


def of_different_kinds(mesh: Mesh) -> None:
    """Its second device is a GPU: a program of it and of a processor is none."""
    for devices, text in (((0, 1), "edgec(id=1, cuda) for cuda:90"), ((0, 2), "")):
        some = Mesh([mesh.devices.flat[i] for i in devices], ("d",))
        rows = jax.device_put(_draw_once(4, 2), NamedSharding(some, P("d")))
        np.testing.assert_array_equal(rows, _draw_once(4, 2))
        if not text:
            np.testing.assert_allclose(jax.jit(jnp.sum)(rows), _draw_once(4, 2).sum(), rtol=1e-5)
            continue
        said = _refused(lambda rows=rows: jax.jit(jnp.sum)(rows))
        assert f"edgec(id=0, cpu) for cpu and {text}" in said, said
        assert "give its mesh devices of one kind" in said, said


def executable_to_bytes(mesh: Mesh) -> None:
    from jax.experimental import serialize_executable

    compiled = _kept(mesh)
    Path(os.environ["EXECUTABLE"]).write_bytes(
        pickle.dumps(serialize_executable.serialize(compiled))
    )


def executable_from_bytes(mesh: Mesh) -> None:
    from jax.experimental import serialize_executable

    data = pickle.loads(Path(os.environ["EXECUTABLE"]).read_bytes())
    loaded = serialize_executable.deserialize_and_load(
        *data, execution_devices=list(mesh.devices.flat)
    )
    x = _draw_once(8, 12)
    made = loaded(jax.device_put(x, NamedSharding(mesh, P("x", "y"))))
    np.testing.assert_allclose(made, x @ x.T, rtol=1e-5, atol=1e-5)


def _kept(mesh: Mesh) -> Any:
    cut = jax.ShapeDtypeStruct((8, 12), jnp.float32, sharding=NamedSharding(mesh, P("x", "y")))
    whole = NamedSharding(mesh, P())
    return jax.jit(lambda a: a @ a.T, out_shardings=whole).lower(cut).compile()


def _refused(work: Callable[[], object]) -> str:
    """What is said of work that must fail."""
    try:
        work()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was refused")


COMPARED: dict[str, Callable[[Mesh], Any]] = {
    each.__name__: each
    for each in (
        *(data_parallel_step, transformer_block, results_that_nobody_cuts),
        *(operations_along_axes_that_are_cut, results_that_are_whole, collectives),
        collectives_alone,
        *(axes_by_hand_and_not, sums_of_every_type, loops_of_fixed_rounds, loops_that_speak),
        *(branches_that_speak, arrays_that_are_not_summed, two_meshes, narrow_integers_and_tokens),
        *(devices_in_another_order, devices_in_any_order, some_of_the_devices, pmap),
        *(
            meshes_that_do_not_fit,
            arrays_cut_anew,
            arrays_not_summed_along_four,
            arrays_in_parts,
            python_that_programs_call,
        ),
        *(donated_arrays, calls_that_go_on, nothing_at_all),
    )
}
ALONE: dict[str, Callable[[Mesh], None]] = {
    each.__name__: each
    for each in (
        *(numbers_of_sixteen_bits, refusal_with_its_line, devices_that_do_not_agree),
        what_programs_say_of_themselves,
        *(program_of_one_device_as_a_module, replicas, of_different_kinds),
        *(executable_to_bytes, executable_from_bytes),
    )
}


def _compare(program: Callable[[Mesh], Any], own: Mesh, other: Mesh) -> None:
    """Run a program on both meshes: the same numbers, cut alike."""
    with jax.default_device(own.devices.flat[0]):
        found = program(own)
    with jax.default_device(other.devices.flat[0]):
        wanted = program(other)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    places = {b: a for a, b in zip(own.devices.flat, other.devices.flat, strict=True)}
    for index, (one, two) in enumerate(
        zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    ):
        assert one.dtype == two.dtype
        assert {d.platform for d in one.devices()} == {"edgec"}
        np.testing.assert_allclose(
            one, two, rtol=2e-5, atol=2e-5, err_msg=f"result {index} of {program.__name__}"
        )
        theirs = {places[d]: i for d, i in two.sharding.devices_indices_map(two.shape).items()}
        ours = one.sharding.devices_indices_map(one.shape)
        assert ours == theirs, f"result {index}: {one.sharding} and {two.sharding}"
        shards = {places[shard.device]: shard.data for shard in two.addressable_shards}
        for shard in one.addressable_shards:
            np.testing.assert_allclose(
                shard.data, shards[shard.device], rtol=2e-5, atol=2e-5, err_msg=str(shard.device)
            )


def main() -> None:
    """Run programs, and say of each what went wrong."""
    jax.config.update("jax_num_cpu_devices", DEVICES)
    edgec.plugins.jax.initialize()
    grid = (2, DEVICES // 2) if DEVICES % 2 == 0 else (1, DEVICES)
    own = Mesh(np.array(jax.devices("edgec")).reshape(grid), ("x", "y"))
    for name in sys.argv[1:]:
        wrong = ""
        try:
            if name in ALONE:
                ALONE[name](own)
            else:
                other = Mesh(np.array(jax.devices("cpu")).reshape(grid), ("x", "y"))
                _compare(COMPARED[name], own, other)
        except Exception:  # noqa: BLE001 - each is told
            wrong = traceback.format_exc()
        print(json.dumps([name, wrong]), flush=True)


if __name__ == "__main__":
    main()
