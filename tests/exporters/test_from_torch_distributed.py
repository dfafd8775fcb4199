"""Models with DTensor weights, exported for a mesh, against the same models uncut."""

import contextlib

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from edgec.exporters import export
from edgec.meshing import compile_mesh
from edgec.runtime.errors import UnsupportedOp, UsageError
from edgec.runtime.mesh.running import load_mesh
from edgec.toolchain import CompileOptions

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))


@contextlib.contextmanager
def devices(count=1, *, names=("model",)):
    """A mesh of one process, or one that others belong to, of which there are none."""
    if count == 1:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    try:
        yield init_device_mesh("cpu", (count,), mesh_dim_names=names)
    finally:
        dist.destroy_process_group()


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)).eval()


def test_what_parallelize_module_cuts_is_cut_on_the_devices(tmp_path):
    model = layers()
    wanted = model(X).detach().numpy()
    weights = tmp_path / "net.safetensors"
    with devices() as mesh:
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        program = export(model, (X,), mesh="model=4", external_weights=weights)
        whole = export(model, (X,))
        assert isinstance(model[0].weight, DTensor)
        assert model[0]._forward_pre_hooks
        np.testing.assert_allclose(model(X).detach().numpy(), wanted, rtol=1e-6)
    assert whole.info.mesh is None
    plan = program.info.mesh
    assert plan.weights["0.weight"] == (("model",), ())
    assert plan.weights["0.bias"] == (("model",),)
    assert plan.weights["2.weight"] == ((), ("model",))
    assert [step.kind for step in plan.routes["main"].collectives] == ["all_reduce"]
    made = compile_mesh(
        program.save(tmp_path / "net.mlirbc"), "cpu", tmp_path / "net.mesh", CompileOptions()
    )
    with load_mesh(made.folder.path, simulate=True) as loaded:
        np.testing.assert_allclose(loaded.main(X.numpy()), wanted, atol=1e-5)


def refused(model, mesh="model=2", error=UnsupportedOp):
    with pytest.raises(error) as caught:
        export(model, (X,), mesh=mesh)
    return caught.value


def test_weights_of_which_only_a_part_is_here_are_refused():
    model = layers()
    with devices(2) as mesh:
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        said = refused(model)
    assert said.what == "of the weight 0.weight only the part of one of 2 processes is here"
    assert "mesh of one process" in said.hint


@pytest.mark.parametrize(
    ("names", "placement", "mesh", "error", "match"),
    [
        (None, Shard(0), "model=2", UnsupportedOp, "on a mesh without names"),
        (("model",), Shard(0), "x=2", UsageError, "cuts the weight weight along model"),
        (("model",), Partial(), "model=2", UnsupportedOp, "has the placement Partial"),
    ],
)
def test_what_is_not_done_is_refused_by_name(names, placement, mesh, error, match):
    model = nn.Linear(16, 4, bias=False).eval()
    with devices(names=names) as one:
        whole = model.weight.detach()
        cut = (
            DTensor.from_local(whole, one, [placement])
            if placement.is_partial()
            else distribute_tensor(whole, one, [placement])
        )
        model.weight = nn.Parameter(cut, requires_grad=False)
        assert match in refused(model, mesh, error).what


def test_a_weight_that_is_replicated_is_whole(tmp_path):
    model = nn.Linear(16, 4).eval()
    with devices() as mesh:
        model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), mesh, [Replicate()]))
        model.bias = nn.Parameter(distribute_tensor(model.bias.detach(), mesh, [Replicate()]))
        weights = tmp_path / "net.safetensors"
        program = export(
            model, (X,), mesh="model=2", shard=["input=model,_"], external_weights=weights
        )
    assert program.info.mesh.weights["weight"] == ((), ())
    assert program.info.mesh.routes["main"].inputs == ((("model",), ()),)
