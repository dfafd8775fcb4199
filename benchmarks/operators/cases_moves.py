"""Where values lie: shapes, slices, gathers, scatters."""

from collections.abc import Iterator
from itertools import product

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.operators.case import FLOATS, INTEGERS, Case, arg

__all__ = ["cases"]

_KINDS = ("f32", "f16", "bf16", "f64", "c64", "i8", "i32", "i64", "u8", "u32", "u64", "bool")
_MOVES = {
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, 4, 6, 3), (1, 2)), (4, 6)),
    "concatenate": (lambda x: lax.concatenate([x, x[:, :2], x[:, ::-1]], 1), (4, 6)),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, (1, 3), (2, 3)), (4, 6)),
    "dynamic_update": (
        lambda x: lax.dynamic_update_slice(x, x[:2, :3] + x[2:, 3:], (1, 2)),
        (4, 6),
    ),
    "expand_squeeze": (lambda x: lax.squeeze(lax.expand_dims(x, (0, 2)), (2,)), (4, 6)),
    "pad": (lambda x: lax.pad(x, x[0, 0], ((1, 2, 0), (0, 1, 0))), (4, 6)),
    "pad_interior": (lambda x: lax.pad(x, x[1, 1], ((1, 0, 1), (2, 1, 2))), (4, 6)),
    "pad_negative": (lambda x: lax.pad(x, x[1, 1], ((-1, 0, 0), (-2, 1, 1))), (4, 6)),
    "reshape": (lambda x: lax.reshape(x, (3, 8)), (4, 6)),
    "reshape_dims": (lambda x: lax.reshape(x, (3, 8), (1, 0)), (4, 6)),
    "rev": (lambda x: lax.rev(x, (0, 1)), (4, 6)),
    "slice_stride": (lambda x: lax.slice(x, (1, 0), (4, 6), (2, 3)), (4, 6)),
    "transpose": (lambda x: lax.transpose(x, (2, 0, 1)), (3, 4, 5)),
    "roll": (lambda x: jnp.roll(x, (1, 2), (0, 1)), (4, 6)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), (2, 3)),
    "tril": (jnp.tril, (4, 6)),
    "diag": (jnp.diag, (5, 5)),
    "repeat": (lambda x: jnp.repeat(x, 3, 0), (3, 4)),
    "split": (lambda x: lax.split(x, (1, 2, 3), 1), (4, 6)),
    "stack": (lambda x: jnp.stack([x, x], 1), (3, 4)),
    "rot90": (jnp.rot90, (3, 4)),
    "take_fancy": (lambda x: x[jnp.array([2, 0, 2])[:, None], jnp.array([1, 3])], (3, 4)),
    "scalar_shape": (lambda x: x.reshape(()), (1,)),
    "empty": (lambda x: jnp.concatenate([x[:, :0], x], 1), (2, 3)),
}


def cases() -> Iterator[Case]:
    """About four hundred and fifty."""
    for index, (name, (call, shape)) in enumerate(_MOVES.items()):
        for kind in _KINDS[index % 3 :: 3] if name not in ("pad", "concatenate") else _KINDS:
            if kind == "bool" and name == "dynamic_update":
                continue
            yield Case(group="move", name=f"{name}-{kind}", call=call, args=(arg(kind, *shape),))
    yield from _gathers()
    yield from _scatters()
    yield from _at()


# operand shape, indices shape, slice sizes, dimension numbers
_GATHERS = {
    "rows": ((7, 5), (4, 1), (1, 5), ((1,), (0,), (0,), (), ())),
    "rows_2d_batch": ((7, 5), (2, 3, 1), (1, 5), ((2,), (0,), (0,), (), ())),
    "rows_first": ((7, 5), (4, 1), (1, 5), ((0,), (0,), (0,), (), ())),
    "points": ((7, 5), (6, 2), (1, 1), ((), (0, 1), (0, 1), (), ())),
    "points_swapped": ((5, 5), (6, 2), (1, 1), ((), (0, 1), (1, 0), (), ())),
    "windows": ((8, 9), (4, 2), (3, 4), ((1, 2), (), (0, 1), (), ())),
    "windows_one_axis": ((8, 9), (4, 1), (3, 9), ((1, 2), (), (0,), (), ())),
    "window_drop": ((6, 7, 4), (3, 2), (2, 1, 4), ((1, 2), (1,), (0, 1), (), ())),
    "columns": ((6, 7), (3, 1), (6, 1), ((0,), (1,), (1,), (), ())),
    "batched": ((3, 7, 5), (3, 4, 1), (1, 1, 5), ((2,), (1,), (1,), (0,), (0,))),
    "batched_last": ((7, 3), (4, 3, 1), (1, 1), ((), (0,), (0,), (1,), (1,))),
    "batched_two": ((2, 3, 6), (2, 3, 4, 1), (1, 1, 1), ((), (2,), (2,), (0, 1), (0, 1))),
    "batched_window": ((3, 8), (3, 2, 1), (1, 3), ((2,), (), (1,), (0,), (0,))),
    "one": ((7, 5), (1,), (1, 5), ((0,), (0,), (0,), (), ())),
    "no_indices": ((4, 5), (3, 0), (2, 5), ((1, 2), (), (), (), ())),
}


def _gathers() -> Iterator[Case]:
    modes = (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP)
    kinds = ("f32", "u8", "i32", "bf16", "c64", "u32", "f16", "bool")
    for number, (name, (shape, at, sizes, dims)) in enumerate(_GATHERS.items()):
        numbers = lax.GatherDimensionNumbers(
            offset_dims=dims[0],
            collapsed_slice_dims=dims[1],
            start_index_map=dims[2],
            operand_batching_dims=dims[3],
            start_indices_batching_dims=dims[4],
        )
        for mode in modes:
            for kind in ("f32", kinds[1 + number % 7]):
                for index in ("i32", "u32", "i64") if kind == "f32" else ("i32",):
                    if index == "i64" and mode is modes[1]:
                        continue
                    yield Case(
                        group="gather",
                        name=f"{name}-{mode.name.lower()}-{kind}-{index}",
                        call=lambda x, i, n=numbers, s=sizes, m=mode: lax.gather(
                            x, i, n, s, mode=m
                        ),
                        args=(arg(kind, *shape), arg(index, *at, low=0, high=max(shape))),
                    )
    for kind in ("f32", "i8", "u16", "c64"):
        yield Case(
            group="gather",
            name=f"take_along_axis-{kind}",
            call=lambda x, i: jnp.take_along_axis(x, i, 1),
            args=(arg(kind, 4, 6), arg("i32", 4, 3, low=0, high=6)),
        )
        for mode in ("clip", "fill", "wrap"):
            yield Case(
                group="gather",
                name=f"take-{mode}-{kind}",
                call=lambda x, i, m=mode: jnp.take(x, i, 0, mode=m),
                args=(arg(kind, 5, 3), arg("i32", 2, 3, low=-4, high=8)),
            )
        yield Case(
            group="gather",
            name=f"vmapped_dynamic_slice-{kind}",
            call=jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 3))),
            args=(arg(kind, 4, 6, 3), arg("i32", 4, low=0, high=6)),
        )
    for name, call in {
        "gather_grad": lambda x, i: jax.grad(lambda y: (y[i] ** 2).sum())(x),
        "gather_grad_vmapped": lambda x, i: jax.vmap(
            jax.grad(lambda y, j: (y[j] ** 2).sum()), (None, 0)
        )(x, i),
        "take_along_grad": lambda x, i: jax.grad(
            lambda y: (jnp.take_along_axis(y, i, 0) ** 2).sum()
        )(x),
    }.items():
        for kind in ("f32", "bf16", "f64"):
            yield Case(
                group="gather",
                name=f"{name}-{kind}",
                call=call,
                args=(arg(kind, 5, 4), arg("i32", 3, 4, low=0, high=5)),
            )


# operand shape, indices shape, updates shape, dimension numbers
_SCATTERS = {
    "rows": ((7, 5), (4, 1), (4, 5), ((1,), (0,), (0,), (), ())),
    "rows_2d_batch": ((7, 5), (2, 3, 1), (2, 3, 5), ((2,), (0,), (0,), (), ())),
    "rows_3d_batch": ((7, 5), (2, 1, 3, 1), (2, 1, 3, 5), ((3,), (0,), (0,), (), ())),
    "rows_first": ((7, 5), (4, 1), (5, 4), ((0,), (0,), (0,), (), ())),
    "points": ((7, 5), (6, 2), (6,), ((), (0, 1), (0, 1), (), ())),
    "points_swapped": ((5, 6), (6, 2), (6,), ((), (0, 1), (1, 0), (), ())),
    "points_2d_batch": ((7, 5), (2, 3, 2), (2, 3), ((), (0, 1), (0, 1), (), ())),
    "window": ((8, 9), (4, 2), (4, 3, 4), ((1, 2), (), (0, 1), (), ())),
    "window_one": ((8, 9), (2,), (3, 4), ((0, 1), (), (0, 1), (), ())),
    "window_one_axis": ((8, 9), (3, 1), (3, 2, 9), ((1, 2), (), (0,), (), ())),
    "window_middle": ((6, 5, 4), (3, 1), (3, 6, 2, 4), ((1, 2, 3), (), (1,), (), ())),
    "inserted_middle": ((6, 5, 4), (3, 1), (3, 6, 4), ((1, 2), (1,), (1,), (), ())),
    "columns": ((6, 7), (3, 1), (6, 3), ((0,), (1,), (1,), (), ())),
    "batched": ((3, 7, 5), (3, 4, 1), (3, 4, 5), ((2,), (1,), (1,), (0,), (0,))),
    "batched_last": ((7, 3), (4, 3, 1), (4, 3), ((), (0,), (0,), (1,), (1,))),
    "batched_two": ((2, 3, 6), (2, 3, 4, 1), (2, 3, 4), ((), (2,), (2,), (0, 1), (0, 1))),
    "batched_window": ((3, 8), (3, 2, 1), (3, 2, 3), ((2,), (), (1,), (0,), (0,))),
    "scalar": ((7,), (1,), (), ((), (0,), (0,), (), ())),
    "one_row": ((7, 5), (1,), (5,), ((0,), (0,), (0,), (), ())),
    "no_indices": ((4, 5), (3, 0), (3, 2, 5), ((1, 2), (), (), (), ())),
    "1d": ((9,), (5, 1), (5,), ((), (0,), (0,), (), ())),
}
_UPDATES = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "sub": lax.scatter_sub,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


def _scatters() -> Iterator[Case]:
    modes = (
        lax.GatherScatterMode.FILL_OR_DROP,
        lax.GatherScatterMode.CLIP,
        lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    others = ("u8", "i8", "u32", "c64", "bf16", "f16", "i64", "u64", "i32", "f64", "u16")
    for n, ((form, (shape, at, updates, dims)), (what, call)) in enumerate(
        product(_SCATTERS.items(), _UPDATES.items())
    ):
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=dims[0],
            inserted_window_dims=dims[1],
            scatter_dims_to_operand_dims=dims[2],
            operand_batching_dims=dims[3],
            scatter_indices_batching_dims=dims[4],
        )
        kinds = ["f32", others[n % len(others)]]
        if what in ("min", "max"):
            kinds = [k for k in kinds if k != "c64"]
        for kind in kinds:
            mode = modes[n % 2]
            at_most = max(shape) + (2 if mode is modes[0] else 0)
            given = arg("i32", *at, low=-1, high=at_most)
            if what == "set":
                # The order of updates to one place is not defined: each place is met at most once.
                given = _apart(shape, at, updates, dims)
                mode = modes[2] if n % 3 == 0 else mode
            yield Case(
                group="scatter",
                name=f"{what}-{form}-{mode.name.lower()}-{kind}",
                call=lambda x, i, u, f=call, d=numbers, m=mode: f(x, i, u, d, mode=m),
                args=(arg(kind, *shape), given, arg(kind, *updates)),
            )
    for kind in ("f32", "i32", "u8"):
        yield Case(
            group="scatter",
            name=f"apply-{kind}",
            call=lambda x, i: lax.scatter_apply(
                x,
                i,
                lambda y: y * y + y,
                lax.ScatterDimensionNumbers((1,), (0,), (0,)),
                update_shape=(3, 5),
                unique_indices=True,
            ),
            args=(arg(kind, 7, 5), arg("i32", values=[[1], [5], [3]])),
        )


def _apart(shape, at, updates, dims):  # type: ignore[no-untyped-def]
    """Indices whose windows do not overlap."""
    import numpy as np

    count = int(np.prod(at[:-1])) if len(at) else 1
    components = at[-1]
    if components == 0:
        return arg("i32", *at, values=np.zeros(at, np.int32))
    window = [1] * components
    inserted, batching = set(dims[1]), set(dims[3])
    kept = [d for d in range(len(shape)) if d not in inserted | batching]
    for size_axis, d in zip(dims[0], kept, strict=True):
        if d in dims[2]:
            window[dims[2].index(d)] = updates[size_axis]
    along = dims[2][0]
    spread = [(j * window[0]) % max(shape[along] - window[0] + 1, 1) for j in range(count)]
    rows = [[s] + [0] * (components - 1) for s in spread]
    if components == 2 and len(set(spread)) < count:
        other = shape[dims[2][1]] - window[1] + 1
        rows = [[spread[j], (j // max(shape[along], 1)) % other] for j in range(count)]
    if dims[4]:  # the same places in each batch
        per = int(np.prod([n for a, n in enumerate(at[:-1]) if a not in dims[4]]))
        grid = np.arange(per) * window[0] % max(shape[along] - window[0] + 1, 1)
        free = [n if a not in dims[4] else 1 for a, n in enumerate(at[:-1])]
        values = np.broadcast_to(grid.reshape(*free, 1), at)
        return arg("i32", *at, values=values)
    return arg("i32", *at, values=np.array(rows).reshape(at))


def _at() -> Iterator[Case]:
    forms = {
        "at_add": lambda x, i: x.at[i].add(x[:3]),
        "at_set_rows": lambda x, i: x.at[i[0]].set(x[4] * 2),
        "at_max": lambda x, i: x.at[i].max(x[1:4]),
        "at_mul_column": lambda x, i: x.at[:, i].multiply(x[:, :3]),
        "at_min_drop": lambda x, i: x.at[i + 3].min(x[:3], mode="drop"),
        "at_add_points": lambda x, i: x.at[i, i].add(x[0, :3]),
        "at_slice_set": lambda x, i: x.at[1:4, ::2].set(x[0, 0]),
        "segment_sum": lambda x, i: jax.ops.segment_sum(x[:3], i, 7),
        "segment_max": lambda x, i: jax.ops.segment_max(x[:3], i, 4),
        "vmapped_add": lambda x, i: jax.vmap(lambda y: y.at[i].add(y[:3]))(x.T),
        "vmapped_both": lambda x, i: jax.vmap(lambda y, k: y.at[k].add(y[:2]))(
            x, jnp.stack([i[:2]] * 6)
        ),
        "vmapped_twice": lambda x, i: jax.vmap(jax.vmap(lambda y, k: y.at[k].mul(3), (0, None)))(
            x.reshape(3, 2, 5), i[:, None]
        ),
        "bincount": lambda x, i: jnp.bincount(i, length=9),
        "histogram": lambda x, i: jnp.histogram(x.astype(jnp.float32), bins=5)[0],
        "fill_diagonal": lambda x, i: jnp.fill_diagonal(x[:5], 1, inplace=False),
        "put_along": lambda x, i: jnp.put_along_axis(
            x, i[None, :].repeat(6, 0), x[:, :3] * 2, 1, inplace=False
        ),
    }
    for n, (name, call) in enumerate(forms.items()):
        for kind in ("f32", "i32", "u8", ("c64", "bf16", "u32", "f16", "i64")[n % 5]):
            if kind == "c64" and ("max" in name or "min" in name or "histogram" in name):
                continue
            yield Case(
                group="scatter",
                name=f"{name}-{kind}",
                call=call,
                args=(arg(kind, 6, 5), arg("i32", values=[2, 0, 3])),
            )
    for kind in FLOATS + INTEGERS:
        yield Case(
            group="scatter",
            name=f"update_many-{kind}",
            call=lambda x, y, i: jax.vmap(
                lambda a, b, j: lax.dynamic_update_slice(a, b, (j, j * 0 + 1))
            )(x, y, i),
            args=(arg(kind, 3, 5, 4), arg(kind, 3, 2, 2), arg("i32", 3, low=0, high=5)),
        )
