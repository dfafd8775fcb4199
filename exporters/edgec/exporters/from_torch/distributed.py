"""A model's DTensor weights as plain whole ones while it is exported, and how they are cut.

What `parallelize_module` and `distribute_tensor` say of a model is how its weights are cut along a
mesh's named axes; how everything else is cut follows from that (Shardy), so the hooks that turn
inputs into DTensors are put aside, too. The weights have to be whole: in one process they are on a
mesh of one device, whose placements hold for the mesh of any size that is exported for.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from edgec.runtime.errors import UnsupportedOp
from edgec.runtime.mesh.plan import Sharding

__all__ = ["whole_weights"]

_HOOKS = "torch.distributed.tensor"
_ONE = (
    "distribute the model on a mesh of one process, which has whole weights: "
    'init_device_mesh("cpu", (1,), mesh_dim_names=("model",)), and name the sizes by --mesh=model=2'
)


@contextlib.contextmanager
def whole_weights(owner: Any) -> Iterator[Mapping[str, Sharding]]:
    """Give a module plain weights in the place of DTensors, for a time; how each of them is cut.

    Raises:
        UnsupportedOp: weights that are not whole here, a mesh without names, or FSDP.
    """
    replaced: list[tuple[dict[Any, Any], Any, Any]] = []
    hooks: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    cuts: dict[str, Sharding] = {}
    plain: dict[int, Any] = {}
    try:
        for prefix, module in owner.named_modules():
            _refuse_fsdp(prefix, module)
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if not _is_distributed(tensor):
                        continue
                    full = f"{prefix}.{name}" if prefix else name
                    cuts[full] = _cut(tensor, full)
                    plain.setdefault(id(tensor), _whole(tensor, full))
                    replaced.append((held, name, tensor))
        for held, name, tensor in replaced:
            held[name] = plain[id(tensor)]
        if cuts:
            hooks = list(_put_aside(owner))
        yield cuts
    finally:
        for held, name, tensor in replaced:
            held[name] = tensor
        for held, before in hooks:
            held.clear()
            held.update(before)


def _put_aside(owner: Any) -> Iterator[tuple[dict[Any, Any], dict[Any, Any]]]:
    """Take out the hooks of torch.distributed.tensor: each dictionary, and what it was."""
    for module in owner.modules():
        for held in (module._forward_pre_hooks, module._forward_hooks):
            own = [key for key, hook in held.items() if _module_of(hook).startswith(_HOOKS)]
            if own:
                yield held, dict(held)
                for key in own:
                    del held[key]


def _module_of(hook: Any) -> str:
    return str(getattr(hook, "__module__", None) or type(hook).__module__)


def _is_distributed(tensor: Any) -> bool:
    # Without torch.distributed there are none; to import it takes a second.
    return type(tensor).__name__ == "DTensor" and hasattr(tensor, "placements")


def _refuse_fsdp(name: str, module: Any) -> None:
    if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
        raise UnsupportedOp(
            f"{name or 'the model'} is under fully_shard (FSDP), which gathers weights as it runs",
            hint="export the model before fully_shard; --shard=INPUT=data,_ cuts its texts",
        )


def _cut(tensor: Any, name: str) -> Sharding:
    """The axes of the mesh that each of a tensor's axes is cut along."""
    mesh = tensor.device_mesh
    names = mesh.mesh_dim_names
    if names is None:
        raise UnsupportedOp(
            f"the weight {name} is on a mesh without names",
            hint='name its axes: init_device_mesh("cpu", (1,), mesh_dim_names=("model",))',
        )
    cut: list[list[str]] = [[] for _ in range(tensor.ndim)]
    for axis, placement in zip(names, tensor.placements, strict=True):
        kind = type(placement).__name__
        if kind == "Shard":
            cut[placement.dim % tensor.ndim].append(axis)
        elif kind != "Replicate":
            raise UnsupportedOp(
                f"the weight {name} has the placement {kind} along {axis}",
                hint="weights are Shard(axis) or Replicate()",
            )
    return tuple(map(tuple, cut))


def _whole(tensor: Any, name: str) -> Any:
    import torch

    mesh = tensor.device_mesh
    if mesh.size() != 1:
        raise UnsupportedOp(
            f"of the weight {name} only the part of one of {mesh.size()} processes is here",
            hint=_ONE,
        )
    made = tensor.detach().to_local()
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad) if is_parameter else made
