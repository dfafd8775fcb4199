"""Programs of JAX's, each held to what NumPy computes; all run in one process on edgec's platform.

python jax_programs.py [NAME ...]     # prints a line of JSON each: its name, and what went wrong
"""

import functools
import json
import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import gmres

import edgec.plugins.jax
from edgec.runtime.errors import UsageError


def losses_and_gradients() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    w = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)

    def loss(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = jnp.tanh(x @ w)
        return (y**2).sum(), y

    (value, y), slope = jax.jit(jax.value_and_grad(loss, has_aux=True))(w, x)
    want = np.tanh(x @ w)
    np.testing.assert_allclose(y, want, rtol=1e-5)
    np.testing.assert_allclose(value, (want**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(slope, x.T @ (2 * want * (1 - want**2)), rtol=1e-4, atol=1e-4)


def random_numbers_in_a_loop() -> None:
    """The same bits as the reference of Threefry's authors gives (key 0, counter 0)."""

    def step(total: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        bits = jax.random.bits(key, (2,), "uint32")
        return total + bits[0], bits

    total, rows = jax.lax.scan(step, jnp.uint32(0), jnp.zeros((3, 2), jnp.uint32))
    np.testing.assert_array_equal(rows, np.tile(_threefry(0, 0, np.arange(2)), (3, 1)))
    np.testing.assert_array_equal(total, np.asarray(rows)[:, 0].sum(dtype=np.uint32))


def _threefry(first: int, second: int, places: np.ndarray) -> np.ndarray:
    """Threefry-2x32, and both its words joined, as JAX draws 32 bits of a place."""
    keys = [np.uint32(first), np.uint32(second)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    x = [np.zeros_like(places, np.uint32) + keys[0], places.astype(np.uint32) + keys[1]]
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    for group in range(5):
        for turn in turns[group % 2]:
            x[0] = x[0] + x[1]
            x[1] = x[0] ^ (x[1] << np.uint32(turn) | x[1] >> np.uint32(32 - turn))
        x[0] = x[0] + keys[(group + 1) % 3]
        x[1] = x[1] + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x[0] ^ x[1]


def solvers_whose_loop_gives_all_it_carries() -> None:
    """Operation by operation `gmres` is a program of its loop alone, with four results."""
    n = 4
    a = np.random.default_rng(3).normal(size=(n, n)).astype(np.float32) + n * np.eye(n)
    a, b = a.astype(np.float32), np.arange(1, n + 1, dtype=np.float32)
    for method in ("incremental", "batched"):
        x, _ = gmres(jnp.array(a), jnp.array(b), tol=1e-6, restart=n, solve_method=method)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-3, atol=1e-4)


def products_by_a_named_algorithm() -> None:
    """What StableHLO has since version 1.1 only."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    named = jax.lax.DotAlgorithmPreset.F32_F32_F32
    product = jax.jit(lambda x: jax.lax.dot(x, x.T, precision=named))(x)
    np.testing.assert_allclose(product, x @ x.T, rtol=1e-6)


def buffers_of_every_type() -> None:
    kinds = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
    kinds += ["float16", "float32", "bfloat16", "complex64"]
    wide = ["int64", "uint64", "float64", "complex128"]
    with jax.enable_x64(True):
        for kind in kinds + wide:
            for shape in [(), (0, 3), (2, 3, 5)]:
                values = (np.arange(np.prod(shape)) % 2).reshape(shape).astype(jnp.dtype(kind))
                for given in (values, values.T, values[..., ::-1] if shape else values):
                    np.testing.assert_array_equal(jax.device_put(given), given)
    said = _refused(lambda: jax.device_put(np.ones(3, jnp.float8_e5m2)))
    assert "edgec's buffers have no elements of PJRT's type" in said


def memory_shared_with_numpy() -> None:
    whole = np.zeros(1024 + 16, np.float32)
    start = -whole.ctypes.data % 64 // 4
    aligned = whole[start : start + 1024]
    x = jax.device_put(aligned, may_alias=True)
    y = np.asarray(x)
    assert y.ctypes.data == aligned.ctypes.data
    x.delete()
    assert y.sum() == 0


def donated_arrays() -> None:
    x, y = jnp.ones(4), jnp.ones(4)
    z = jax.jit(lambda x, y: (x + y, y), donate_argnums=0)(x, y)
    np.testing.assert_array_equal(z[0], [2, 2, 2, 2])
    assert x.is_deleted()
    assert not y.is_deleted()
    assert "deleted" in _refused(lambda: x + 1)
    for donated in ((), 0):  # the same program, but for that
        x = jnp.ones(4)
        jax.jit(lambda x: x * 3 - 1, donate_argnums=donated)(x)
        assert x.is_deleted() == (donated == 0)


def _fresh(shape: tuple[int, ...], start: float) -> jax.Array:
    """An array in the device's own memory, which nobody else sees."""
    count = jax.jit(lambda start: jnp.arange(np.prod(shape), dtype=jnp.float32) + start)
    return jax.block_until_ready(count(start).reshape(shape))


def _counted(shape: tuple[int, ...], start: float) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32) + np.float32(start)).reshape(shape)


def _place(x: jax.Array) -> int | None:
    """Where its memory is; None of a GPU."""
    return x.unsafe_buffer_pointer() if "cpu" in str(x.device) else None


def results_where_donated_arrays_lie() -> None:
    """A result is written there if no element is lost; the others are right as well."""
    shape = (48, 64)
    a, b = _counted(shape, 1), _counted(shape, 9)
    rows = np.array([3, 7, 3])
    wanted: tuple[tuple[Any, tuple[np.ndarray, ...], bool], ...] = (
        (lambda p, q: p - q * 2, (a - b * 2,), True),
        (lambda p, q: p.at[2:4].set(q[:2]), (np.concatenate([a[:2], b[:2], a[4:]]),), True),
        (lambda p, q: p.at[rows].add(1), (a + np.bincount(rows, minlength=48)[:, None],), True),
        (lambda p, q: (p * 2, (p + q).sum(1)), (a * 2, (a + b).sum(1)), True),
        (lambda p, q: q * 2 + p.max(), (b * 2 + a.max(),), False),
        (lambda p, q: jnp.sort(p, 1) + q, (a + b,), True),
        (lambda p, q: q[jnp.argsort(-p[:, 0])], (b[::-1],), True),
        (lambda p, q: jnp.exp(p * -1e-3).cumsum(1), (np.exp(a * -1e-3).cumsum(1),), False),
        (lambda p, q: p[::-1], (a[::-1],), False),
        (lambda p, q: p - p.mean(1, keepdims=True), (a - a.mean(1, keepdims=True),), False),
        (lambda p, q: p.T.reshape(shape) + p, (a.T.reshape(shape) + a,), False),
        (lambda p, q: jax.vmap(lambda r, s: r - s.sum())(p, q), (a - b.sum(1)[:, None],), True),
        (
            lambda p, q: jax.lax.scan(lambda c, x: (c.at[0].add(x), c[1, 0]), p, q)[0],
            (np.concatenate([a[:1] + b.sum(0), a[1:]]),),
            False,
        ),
        (lambda p, q: (p + 1, p), (a + 1, a), False),
    )
    functions = [function for function, _, _ in wanted]

    def all_of_them(given: list[jax.Array], q: jax.Array) -> list[Any]:
        return [function(p, q) for function, p in zip(functions, given, strict=True)]

    given, q = [_fresh(shape, 1) for _ in wanted], _fresh(shape, 9)
    places = [_place(p) for p in given]
    made = jax.jit(all_of_them, donate_argnums=0)(given, q)
    for p, place, results, (_, want, is_there) in zip(given, places, made, wanted, strict=True):
        assert p.is_deleted()
        found = jax.tree.leaves(results)
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-2)
        if is_there:
            assert _place(found[0]) == place, want
    np.testing.assert_array_equal(q, b)

    def turned(p: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        return q + 1, p * 2

    for function, want in ((turned, (b + 1, a * 2)), (lambda p, q: (p + q, p - q), (a + b, a - b))):
        given = jax.jit(function, donate_argnums=(0, 1))(_fresh(shape, 1), _fresh(shape, 9))
        for got, expected in zip(given, want, strict=True):
            np.testing.assert_array_equal(got, expected)


def donated_memory_that_others_see() -> None:
    """What somebody else may read is copied first, and stays."""
    shape = (16, 32)
    want = _counted(shape, 1)

    @functools.partial(jax.jit, donate_argnums=0)
    def double(p: jax.Array, q: jax.Array) -> jax.Array:
        return p * 2 + q * 0

    def changed(p: jax.Array, q: Any = 0.0) -> None:
        np.testing.assert_array_equal(double(p, q), want * 2)
        assert p.is_deleted()

    p = _fresh(shape, 1)
    seen = np.asarray(p)
    changed(p)
    np.testing.assert_array_equal(seen, want)
    p = _fresh(shape, 1)
    changed(p, p)  # the same array twice
    memory = np.zeros(16 * 32 + 16, np.float32)
    mine = memory[-memory.ctypes.data % 64 // 4 :][: 16 * 32].reshape(shape)
    mine[...] = want
    changed(jax.device_put(mine, may_alias=True))
    np.testing.assert_array_equal(mine, want)
    p = _fresh(shape, 1)
    same, more = jax.jit(lambda p: (p, p + 1))(p)  # `same` lies in the memory of `p`
    changed(p)
    np.testing.assert_array_equal(same, want)
    changed(same)
    first, second = jax.jit(lambda p: (p @ jnp.eye(32) + 1, p @ jnp.eye(32)))(more)
    changed(second - 1)
    np.testing.assert_array_equal(first, want + 2)
    np.testing.assert_array_equal(second, want + 1)
    constant = jax.jit(lambda: jnp.asarray(want))
    changed(constant())
    np.testing.assert_array_equal(constant(), want)
    read = _fresh(shape, 1)
    slow = jax.jit(lambda p: jax.lax.fori_loop(0, 3000, lambda _, x: jnp.tanh(x @ x.T) @ x, p))
    later = slow(read)  # reads it after `double` has been asked for
    changed(read)
    np.testing.assert_array_equal(later, slow(jnp.asarray(want)))
    kept = jax.jit(lambda p, q: (p.at[0].set(0), q), donate_argnums=0, keep_unused=True)
    p = _fresh(shape, 1)
    zero, same = kept(p, p)
    np.testing.assert_array_equal(same, want)
    np.testing.assert_array_equal(zero[1:], want[1:])


def donation_to_a_call_that_fails() -> None:
    huge = jax.jit(lambda p: (p + 1, p.sum() + jnp.ones((1 << 44, 8))), donate_argnums=0)
    p = _fresh((16, 32), 1)
    seen = np.asarray(p)
    assert "memory" in _refused(lambda: jax.block_until_ready(huge(p)))
    assert p.is_deleted()
    np.testing.assert_array_equal(seen, _counted((16, 32), 1))
    np.testing.assert_array_equal(
        jax.jit(lambda p: p + 1, donate_argnums=0)(_fresh((4,), 1)), [2, 3, 4, 5]
    )


def training_in_place() -> None:
    """The results of a step of Adam lie where its state was."""
    size, steps = 1 << 16, 3
    rate, small = np.float32(0.1), np.float32(1e-3)

    def adam(state: tuple[jax.Array, ...], x: jax.Array) -> tuple[jax.Array, ...]:
        p, m, v = state
        slope = p - x
        m, v = m * 0.9 + slope * 0.1, v * 0.99 + slope * slope * 0.01
        return p - rate * m / (jnp.sqrt(v) + small), m, v

    step = jax.jit(adam, donate_argnums=0)
    state = tuple(_fresh((size,), start) for start in (0, 1, 2))
    places = [_place(each) for each in state]
    for turn in range(steps):
        state = jax.block_until_ready(step(state, np.float32(turn)))
        assert [_place(each) for each in state] == places
    want = tuple(_counted((size,), start) for start in (0, 1, 2))
    for turn in range(steps):
        p, m, v = want
        slope = p - np.float32(turn)
        m = m * np.float32(0.9) + slope * np.float32(0.1)
        v = v * np.float32(0.99) + slope * slope * np.float32(0.01)
        want = (p - rate * m / (np.sqrt(v) + small), m, v)
    for got, expected in zip(state, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5)
    p = _fresh((8,), 1)
    np.testing.assert_array_equal(jax.jit(jnp.add, donate_argnums=0)(p, p), _counted((8,), 1) * 2)


def what_a_program_costs() -> None:
    """Counted by hand: a product of 8 x 64 by 64 x 32 and what is done with its elements."""

    def f(p: jax.Array, x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return p + 1, jnp.tanh(x @ w)

    p, x, w = jnp.ones((64, 32)), jnp.ones((8, 64)), jnp.ones((64, 32))
    made = jax.jit(f, donate_argnums=0).lower(p, x, w).compile()
    memory, costs, text = made.memory_analysis(), made.cost_analysis(), made.as_text()
    assert memory.argument_size_in_bytes == 4 * (2 * 64 * 32 + 8 * 64)
    assert memory.output_size_in_bytes == 4 * (64 * 32 + 8 * 32)
    assert memory.alias_size_in_bytes == 4 * 64 * 32
    assert costs["flops"] == 2 * 8 * 64 * 32 + 8 * 32 + 64 * 32
    assert costs["bytes accessed"] >= 4 * (8 * 64 + 64 * 32 + 8 * 32) + memory.output_size_in_bytes
    for word in (" dot(", " tanh(", "input_output_alias={ {0}: (0, {}, may-alias) }"):
        assert word in text, text
    large = jax.jit(lambda x: jnp.sort(jnp.sort(x), axis=0)).lower(jnp.ones((256, 512))).compile()
    assert large.memory_analysis().temp_size_in_bytes >= 4 * 256 * 512


def calls_that_go_on() -> None:
    """A call returns before it ends; what needs its results comes after it, in order."""

    @jax.jit
    def slow(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3000, lambda _, x: jnp.tanh(x @ x), x)

    x = np.eye(64, dtype=np.float32) / 2
    want = x.diagonal().copy()
    for _ in range(3000):
        want = np.tanh(want * want)
    add = jax.jit(lambda x, y: x + y, donate_argnums=0)
    add(jnp.asarray(x), slow(x)).block_until_ready()  # both are compiled
    given = jnp.asarray(x)
    y = slow(given)
    z = add(given, y)
    assert not z.is_ready()
    assert given.is_deleted()
    moved = np.empty_like(x)
    z.copy_to_host_async()
    moved[...] = z
    assert z.is_ready()
    assert y.is_ready()
    np.testing.assert_allclose(moved.diagonal(), want + 0.5, rtol=1e-5)
    for _ in range(100):
        y = slow(y)
    del x, y, z  # more than the device may be behind, and nobody waits for them


def failure_of_a_call_that_goes_on() -> None:
    """What fails in the background is told to whoever waits for it, and for what needs it."""
    huge = jax.jit(lambda x: x + jnp.ones((1 << 44, 8), np.float32))
    y = huge(np.float32(1))
    z = jax.jit(lambda y: y[:3] * 2)(y)
    for each in (y, z):
        assert "memory" in _refused(lambda each=each: each.block_until_ready())
    assert "memory" in _refused(lambda: np.asarray(z))
    assert jnp.float32(1) + 1 == 2


def arrays_that_are_not_donated() -> None:
    """What is updated is a new array; the old one stays."""
    x = jnp.arange(64 * 8, dtype=jnp.float32).reshape(64, 8)
    for update in (
        lambda x: x.reshape(-1).at[7].set(3),
        lambda x: (x, x.at[3].set(0)),
        lambda x: jax.lax.fori_loop(0, 40, lambda i, x: x.at[i].set(0), x),
    ):
        jax.block_until_ready(jax.jit(update)(x))
        np.testing.assert_array_equal(x, np.arange(64 * 8).reshape(64, 8))


def nothing_at_all() -> None:
    assert jax.jit(lambda x: ())(np.float32(1)) == ()


def module_that_ran() -> None:
    from edgec.runtime import load

    double = jax.jit(lambda x, y: x * 2 + y)
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "double.vmfb")
        module = edgec.plugins.jax.compiled(double, x, y, output=path)
        assert module.path == path
        with load(path) as loaded:
            np.testing.assert_array_equal(loaded.main(x, y), double(x, y))


def refusal_with_its_line() -> None:
    def foreign(x: jax.Array) -> jax.Array:
        return jax.ffi.ffi_call("nobodys_kernel", jax.ShapeDtypeStruct((3,), jnp.float32))(x)

    said = _refused(lambda: jax.jit(foreign)(np.ones(3, np.float32)))
    assert "nobodys_kernel" in said
    assert f"{Path(__file__).name}:{foreign.__code__.co_firstlineno + 1}" in said


def options_of_a_compile() -> None:
    def f(x: jax.Array) -> jax.Array:
        return x + 1

    own = jax.jit(f, compiler_options={"xla_embed_ir_in_executable": True})
    assert own(np.float32(1)) == 2
    wrong = jax.jit(f, compiler_options={"fast": True})
    assert "No such compile option: 'fast'" in _refused(lambda: wrong(np.float32(1)))


def mesh_of_one() -> None:
    from jax.sharding import Mesh, PartitionSpec

    spec = PartitionSpec("d")
    mesh = Mesh(np.array(jax.devices()), ("d",))
    total = jax.shard_map(
        lambda x: (jax.lax.psum(x, "d") * 2, jax.lax.psum(x, "d")[0]),
        mesh=mesh,
        in_specs=spec,
        out_specs=(PartitionSpec(), PartitionSpec()),
    )
    x = np.arange(3, dtype=np.float32)
    y, first = jax.jit(total)(x)
    assert y.devices() == {jax.devices()[0]}
    np.testing.assert_array_equal(y + 1, x * 2 + 1)
    np.testing.assert_array_equal(first, 0)


def floats_of_four_bits() -> None:
    """The compiler has none: refused, but where XLA is asked for what is."""

    def rounded(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        small = x.astype(jnp.float4_e2m1fn)
        return small.astype(np.float32) * 2, (x > 0).astype(np.int32)

    x = np.float32([-6.0, -1.5, 0.0, 3.0, 6.0])
    if os.environ.get("EDGEC_JAX_REFUSED") != "xla":
        assert "unable to pack to bytes" in _refused(lambda: jax.jit(rounded)(x))
        return
    y, above = jax.jit(rounded)(x)
    assert y.devices() == {jax.devices()[0]}
    np.testing.assert_array_equal(y + 1, x * 2 + 1)
    np.testing.assert_array_equal(above, x > 0)


def _of_narrow(known: np.ndarray, x: jax.Array) -> Any:
    """What is computed of narrow integers, `known` among them."""
    kept = jnp.array(known)
    moved = (x + x, x * kept, -x, ~x, x << 1, jax.lax.shift_right_logical(x, x * 0 + 1))
    seen = (x > kept[::-1], jnp.sort(x[::-1]), jax.lax.clz(x), jax.lax.population_count(x))
    counted = jax.lax.iota(x.dtype, 40)
    summed = jax.lax.reduce(x, x[0] * 0, jax.lax.add, (0,))
    return *moved, *seen, counted, summed, x.astype(np.float32) @ jnp.ones((x.size, 2))


def narrow_integers() -> None:
    """Of 4 and 2 bits: what leaves their range is wrapped, as NumPy's of ml_dtypes are."""
    kinds = [jnp.dtype(kind) for kind in (jnp.int4, jnp.uint4, jnp.int2, jnp.uint2)]
    limits = [jnp.iinfo(dtype) for dtype in kinds]
    ranges = [np.arange(int(limit.min), int(limit.max) + 1) for limit in limits]
    known = [wide.astype(dtype) for wide, dtype in zip(ranges, kinds, strict=True)]
    given = [jax.device_put(each) for each in known]
    bits = [limit.bits for limit in limits]
    split = [x.reshape(-1, 8 // count) for x, count in zip(given, bits, strict=True)]

    @jax.jit
    def computed(given: list[jax.Array], split: list[jax.Array]) -> Any:
        return (
            [_of_narrow(each, x) for each, x in zip(known, given, strict=True)],
            [jax.lax.bitcast_convert_type(x, jnp.uint8) for x in split],
        )

    found, packed = computed(given, split)
    back = jax.jit(
        lambda packed: [
            jax.lax.bitcast_convert_type(x, dtype) for x, dtype in zip(packed, kinds, strict=True)
        ]
    )(packed)
    for n, (dtype, wide) in enumerate(zip(kinds, ranges, strict=True)):
        low, width = int(wide[0]), bits[n]

        def wrapped(values: np.ndarray, low: int = low, width: int = width) -> np.ndarray:
            return (values - low) % (1 << width) + low

        assert given[n].dtype == dtype
        np.testing.assert_array_equal(np.asarray(given[n]), known[n])
        unsigned = wide % (1 << width)
        wanted = [wide + wide, wide * wide, -wide, ~wide, wide << 1, unsigned >> 1]
        wanted = [wrapped(each) for each in wanted]
        ones = np.array([int(number).bit_count() for number in unsigned])
        lengths = np.array([int(number).bit_length() for number in unsigned])
        wanted += [wide > wide[::-1], wide, wrapped(width - lengths), wrapped(ones)]
        wanted += [wrapped(np.arange(40)), wrapped(wide.sum()), np.full(2, wide.sum())]
        for index, (made, want) in enumerate(zip(found[n], wanted, strict=True)):
            np.testing.assert_array_equal(
                np.asarray(made).astype(np.float32), want, err_msg=f"{dtype}, result {index}"
            )
        places = width * np.arange(8 // width)
        np.testing.assert_array_equal(
            packed[n], (unsigned.reshape(-1, 8 // width) << places).sum(1)
        )
        np.testing.assert_array_equal(np.asarray(back[n]), np.asarray(split[n]))


def tokens() -> None:
    def ordered(x: jax.Array) -> Any:
        token = jax.lax.create_token(x)
        return token, x + 1, jax.lax.after_all(token, token)

    first, y, second = jax.jit(ordered)(np.float32([1, 2]))
    second.block_until_ready()
    third, z = jax.jit(lambda token, x: (jax.lax.after_all(token), x * 2))(first, y)
    third.block_until_ready()
    np.testing.assert_array_equal(z, [4, 6])


def compiler_that_dies() -> None:
    for process in list(_children()):
        os.kill(process, signal.SIGKILL)
    np.testing.assert_array_equal(jnp.arange(5) + 1, [1, 2, 3, 4, 5])


def gpu_beside_the_cpu() -> None:
    cpu, gpu = jax.devices()
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    moved = jax.device_put(x, gpu)
    y = jax.jit(lambda x: jnp.tanh(x @ x.T))(moved)
    assert y.devices() == {gpu}
    back = jax.device_put(y, cpu)
    assert back.devices() == {cpu}
    np.testing.assert_allclose(back, np.tanh(x @ x.T), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(moved, x)


def gpu_that_only_writes_down() -> None:
    """CUDA's driver without a GPU (`fake_cuda.c`): arrays come and go, and kernels are begun."""
    cpu, *gpus = jax.devices()
    assert [each.device_kind for each in gpus] == ["Paper 0", "Paper 1"]
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    for gpu in gpus:
        moved = jax.device_put(x, gpu)
        y = jax.jit(lambda x: jnp.tanh(x @ x.T))(moved)
        assert y.devices() == {gpu}
        assert y.shape == (3, 3)
        y.block_until_ready()
        np.testing.assert_array_equal(jax.device_put(moved, cpu), x)
    launches = Path(os.environ["FAKE_LAUNCHES"]).read_text().splitlines()
    assert launches


def executable_to_bytes() -> None:
    from jax.experimental.serialize_executable import serialize

    compiled = jax.jit(_tanh_product, donate_argnums=1).lower(_FEW, _FEW).compile()
    Path(os.environ["EXECUTABLE"]).write_bytes(pickle.dumps(serialize(compiled)))


def executable_from_bytes() -> None:
    from jax.experimental.serialize_executable import deserialize_and_load, serialize

    compiled = deserialize_and_load(*pickle.loads(Path(os.environ["EXECUTABLE"]).read_bytes()))
    x, y = jnp.asarray(_FEW), jnp.asarray(_FEW) + 0
    product, twice = compiled(x, y)
    np.testing.assert_allclose(product, np.tanh(_FEW) @ _FEW.T, rtol=1e-5)
    np.testing.assert_array_equal(twice, 2 * _FEW)
    assert y.is_deleted()
    assert not x.is_deleted()
    loaded, *_ = serialize(compiled)  # what was read can be written again
    assert loaded
    client = jax.devices()[0].client
    whole = client.serialize_executable(compiled.runtime_executable())
    for size in (len(whole) // 2, len(whole) - 1):
        assert _refused(lambda size=size: _deserialize(client, whole[:size]))


def _deserialize(client: Any, data: bytes) -> object:
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    return client.deserialize_executable(data, xla_client.DeviceList((jax.devices()[0],)), options)


_FEW = np.arange(6, dtype=np.float32).reshape(2, 3)


def _tanh_product(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.tanh(x) @ y.T, y * 2


def checkpoints_of_orbax() -> None:
    import orbax.checkpoint as ocp

    state = {
        "weights": jnp.arange(12, dtype=jnp.float32).reshape(3, 4) / 7,
        "half": jnp.ones(4, jnp.bfloat16) * 3,
        "step": jnp.int32(3),
        "key": jax.random.key_data(jax.random.key(1)),
    }
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as keeper:
        keeper.save(Path(folder, "state"), state)
        keeper.wait_until_finished()
        back = keeper.restore(Path(folder, "state"), jax.tree.map(jnp.zeros_like, state))
    jax.tree.map(np.testing.assert_array_equal, back, state)
    assert back["weights"].devices() == {jax.devices()[0]}
    assert back["half"].dtype == jnp.bfloat16


def _refused(work: Callable[[], object]) -> str:
    """What is said of work that must fail."""
    try:
        work()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def python_that_programs_call() -> None:
    """Printing, and functions of NumPy's, in programs, loops, branches and gradients, in order."""
    from jax.experimental import io_callback

    seen: list[Any] = []
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)

    @jax.jit
    def straight(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda v, name: seen.append((name, np.asarray(v))), x * 2, name="twice")
        y = jax.pure_callback(lambda v: np.sort(np.asarray(v), 1)[:, ::-1], like, x)
        nothing = jax.pure_callback(lambda: np.zeros((0, 2), np.int32), np.zeros((0, 2), np.int32))
        return y + x + nothing.sum()

    np.testing.assert_allclose(straight(x), x[:, ::-1] + x, rtol=1e-6)
    jax.effects_barrier()
    ((name, value),) = seen
    assert name == "twice"
    np.testing.assert_array_equal(value, x * 2)

    def note(where: str) -> Callable[..., Any]:
        return lambda i, v: (seen.append((where, int(i))), np.float32(v + i))[1]

    @jax.jit
    def around(rounds: jax.Array) -> Any:
        number = jax.ShapeDtypeStruct((), np.float32)

        def step(carried: Any) -> Any:
            i, v = carried
            v = io_callback(note("loop"), number, i, v, ordered=True)
            odd = lambda v: io_callback(note("odd"), number, i, v, ordered=True)  # noqa: E731
            return i + 1, jax.lax.cond(i % 2 == 1, odd, lambda v: v, v)

        looped = jax.lax.while_loop(lambda c: c[0] < rounds, step, (0, np.float32(0)))

        def row(total: jax.Array, i: jax.Array) -> Any:
            jax.debug.callback(lambda i: seen.append(("scan", int(i))), i, ordered=True)
            return total + i, total

        return looped, jax.lax.scan(row, 0, jnp.arange(3))

    seen.clear()
    (count, value), (total, rows) = around(4)
    jax.effects_barrier()
    assert (int(count), float(value), int(total), rows.tolist()) == (4, 10.0, 3, [0, 0, 1])
    turns = [("loop", 0), ("loop", 1), ("odd", 1), ("loop", 2), ("loop", 3), ("odd", 3)]
    assert seen == [*turns, ("scan", 0), ("scan", 1), ("scan", 2)], seen

    @jax.custom_vjp
    def printed(x: jax.Array) -> jax.Array:
        return x

    def backwards(_: None, slope: jax.Array) -> tuple[jax.Array]:
        jax.debug.callback(lambda s: seen.append(np.asarray(s)), slope)
        return (slope,)

    printed.defvjp(lambda x: (x, None), backwards)
    seen.clear()
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: printed(x) ** 3)))(x[0])
    jax.effects_barrier()
    np.testing.assert_allclose(slopes, 3 * x[0] ** 2, rtol=1e-6)
    np.testing.assert_allclose(sorted(seen), sorted(3 * x[0] ** 2), rtol=1e-6)


def python_that_fails() -> None:
    """What it says is the error's; other shapes than it was said to give are an error."""

    def wrong(v: np.ndarray) -> np.ndarray:
        raise ValueError(f"{v.shape} is no good")

    x = np.ones((2, 3), np.float32)
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    for function, text in ((wrong, "(2, 3) is no good"), (np.sum, "Incorrect output shape")):
        call = functools.partial(jax.pure_callback, function, like)
        said = _refused(lambda call=call: jax.block_until_ready(jax.jit(call)(x)))
        assert "Python that the program calls failed" in said, said
        assert text in said, said
    sine = jax.jit(lambda v: jax.pure_callback(np.sin, like, v))
    executable = sine.lower(x).compile().runtime_executable()
    assert "calls Python of this process" in _refused(executable.serialize)
    try:
        edgec.plugins.jax.compiled(sine, x, output="never.vmfb")
    except UsageError as error:
        said = str(error)
    assert "Python that it calls" in said, said
    assert not Path("never.vmfb").exists()


def python_without_a_cpu() -> None:
    said = _refused(lambda: jax.jit(lambda v: jax.debug.print("{}", v))(1.0))
    assert "start with JAX_PLATFORMS=edgec,cpu" in said, said


def _children() -> Iterator[int]:
    """The numbers of this process's children."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = status.read_text().split(") ")[-1].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            yield int(status.parent.name)


PROGRAMS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        *(
            losses_and_gradients,
            products_by_a_named_algorithm,
            random_numbers_in_a_loop,
            solvers_whose_loop_gives_all_it_carries,
            buffers_of_every_type,
        ),
        *(memory_shared_with_numpy, donated_arrays, nothing_at_all, module_that_ran),
        *(results_where_donated_arrays_lie, donated_memory_that_others_see),
        *(donation_to_a_call_that_fails, training_in_place, what_a_program_costs),
        *(arrays_that_are_not_donated, calls_that_go_on, failure_of_a_call_that_goes_on),
        *(
            refusal_with_its_line,
            options_of_a_compile,
            mesh_of_one,
            floats_of_four_bits,
            narrow_integers,
            tokens,
            gpu_beside_the_cpu,
            gpu_that_only_writes_down,
            executable_to_bytes,
            executable_from_bytes,
            checkpoints_of_orbax,
            compiler_that_dies,
        ),
        *(python_that_programs_call, python_that_fails, python_without_a_cpu),
    )
}


def main() -> None:
    """Run programs, and say of each what went wrong."""
    edgec.plugins.jax.initialize()
    assert {device.platform for device in jax.devices()} == {"edgec"}
    for name in sys.argv[1:]:
        wrong = ""
        try:
            PROGRAMS[name]()
        except Exception:  # noqa: BLE001 - each is told
            wrong = traceback.format_exc()
        print(json.dumps([name, wrong]), flush=True)


if __name__ == "__main__":
    main()
