"""Programs of several devices (`jax.shard_map`) as programs of one, which computes all shards.

What a device of a mesh does with its shard becomes one of a batch: arrays are cut as the mesh cuts
them, the shards stand side by side along an axis for each of the mesh's, and what devices say to
each other (sums, gathers, permutations) is what happens between the members of the batch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["shard_rules"]


def shard_rules() -> tuple[tuple[Any, Any], ...]:
    """The rule that lowers `shard_map`."""
    from jax._src import shard_map

    return ((shard_map.shard_map_p, _lowered),)


def _lowered(ctx: Any, *nodes: Any, jaxpr: Any, mesh: Any, **params: Any) -> Any:
    from jax._src import config
    from jax._src.interpreters import mlir

    axes = [name for name in mesh.axis_names if name in params["newly_manual_axes"]]

    def together(*arrays: Any) -> Any:
        return _together(
            jaxpr,
            {name: mesh.shape[name] for name in axes},
            params["in_specs"],
            params["out_specs"],
            arrays,
        )

    # JAX's checks of itself hold types against its notes on what differs between devices, which
    # members of a batch do not have.
    with config.enable_checks(False):
        return mlir.lower_fun(together, multiple_results=True)(ctx, *nodes)


def _together(
    jaxpr: Any,
    sizes: Mapping[str, int],
    in_specs: Sequence[Any],
    out_specs: Sequence[Any],
    arrays: Sequence[Any],
) -> list[Any]:
    """What all devices give, put together as the specifications say."""
    import jax
    from jax._src import config, core
    from jax._src import mesh as meshes

    plain = _plain(jaxpr)

    def one(*shards: Any) -> Any:
        with config._check_vma(False):
            return tuple(core.eval_jaxpr(plain, (), *shards))

    whole: Any = one
    # The innermost axis is mapped first, so that shards have the mesh's axes in its own order.
    for name in reversed(list(sizes)):
        whole = jax.vmap(whole, axis_name=name, axis_size=sizes[name])
    cut = [_cut(array, spec, sizes) for array, spec in zip(arrays, in_specs, strict=True)]
    made = whole(*cut)
    # What its operations give is of the mesh that they were traced for, whose axes are by hand.
    inside = [equation.ctx.cur_abstract_mesh for equation in plain.eqns]
    with meshes.use_abstract_mesh(inside[-1] if inside else meshes.get_abstract_mesh()):
        return [_joined(shards, spec, sizes) for shards, spec in zip(made, out_specs, strict=True)]


def _plain(jaxpr: Any) -> Any:
    """A program of one device without JAX's notes on what differs between devices.

    Sums whose result is known to be the same everywhere are an operation of their own, which
    refuses operands without such notes; members of a batch have none.
    """
    from jax._src import core
    from jax._src.lax import parallel

    def inside(value: Any) -> Any:
        if isinstance(value, core.ClosedJaxpr):
            return value.replace(jaxpr=_plain(value.jaxpr))
        if isinstance(value, core.Jaxpr):
            return _plain(value)
        if isinstance(value, tuple | list):
            return type(value)(inside(each) for each in value)
        return value

    made = []
    for equation in jaxpr.eqns:
        params = {name: inside(value) for name, value in equation.params.items()}
        if equation.primitive is parallel.psum_invariant_p:
            sums = {**params, "axis_index_groups": None}
            made.append(equation.replace(primitive=parallel.psum_p, params=sums))
        else:
            made.append(equation.replace(params=params))
    return jaxpr.replace(eqns=made)


def _names(spec: Any, axis: int) -> tuple[str, ...]:
    """The axes of the mesh that an array's axis is cut along."""
    if axis >= len(spec) or spec[axis] is None:
        return ()
    found = spec[axis]
    return (found,) if isinstance(found, str) else tuple(found)


def _cut(array: Any, spec: Any, sizes: Mapping[str, int]) -> Any:
    """The shards of an array, with an axis in front for each of the mesh's."""
    import jax.numpy as jnp

    shape: list[int] = []
    place: dict[str, int] = {}
    for axis, size in enumerate(array.shape):
        for name in _names(spec, axis):
            place[name] = len(shape)
            shape.append(sizes[name])
            size //= sizes[name]
        shape.append(size)
    split = jnp.reshape(array, shape)
    known = [name for name in sizes if name in place]
    split = jnp.moveaxis(split, [place[name] for name in known], range(len(known)))
    # Whoever has no part of its own has the same as the others along that axis.
    split = jnp.expand_dims(split, [i for i, name in enumerate(sizes) if name not in place])
    return jnp.broadcast_to(split, (*sizes.values(), *split.shape[len(sizes) :]))


def _joined(shards: Any, spec: Any, sizes: Mapping[str, int]) -> Any:
    """An array of its shards; of those that are the same, the first."""
    import jax.numpy as jnp

    rank = shards.ndim - len(sizes)
    used = [name for axis in range(rank) for name in _names(spec, axis)]
    array = shards[tuple(slice(None) if name in used else 0 for name in sizes)]
    left = [name for name in sizes if name in used]
    order: list[int] = []
    shape: list[int] = []
    for axis in range(rank):
        size = array.shape[len(left) + axis]
        for name in _names(spec, axis):
            order.append(left.index(name))
            size *= sizes[name]
        order.append(len(left) + axis)
        shape.append(size)
    return jnp.reshape(jnp.transpose(array, order), shape)
