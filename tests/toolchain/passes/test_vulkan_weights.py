"""Weights that lie in a file as their framework wrote them are turned at load, and right."""

import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir
from safetensors.numpy import save_file

from edgec.targets import find
from edgec.toolchain.flags import compile_flags
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.kernels.vulkan import winograd
from edgec.toolchain.kernels.vulkan.laid_out import find_laid_out, laid_out_here
from edgec.toolchain.passes.place.vulkan_kernels import VulkanKernels
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from edgec.toolchain.process import compiler_path
from tests.toolchain.passes.test_vulkan_winograd import answers

PHONE = find("vulkan:android")


def _grouped(w, s):
    return (w.reshape(4, 6, 5) * s.reshape(1, 6, 1)).transpose(2, 0, 1)


LYING = {
    "outputs last": (lambda w, s: w.transpose(2, 3, 1, 0), (8, 6, 3, 2), (1,), 3),
    "with a factor an output": (
        lambda w, s: (w * s[:, None, None, None]).transpose(2, 3, 1, 0),
        *((8, 6, 3, 2), (8,), 3),
    ),
    "a factor first": (lambda w, s: (s[None, :] * w).T, (8, 6), (6,), 2),
    "turned twice": (
        lambda w, s: w.reshape(48, 6).T.reshape(6, 8, 6).swapaxes(1, 2),
        *((8, 6, 3, 2), (1,), 3),
    ),
    "a part of it": (lambda w, s: w[1::2, 2:5].T, (8, 6), (1,), 2),
    "a factor of part of an axis": (_grouped, (24, 5), (6,), 3),
    "axes that are one run": (lambda w, s: w.reshape(8, 36).T, (8, 6, 3, 2), (1,), 2),
}


@pytest.mark.parametrize("name", LYING)
def test_where_elements_lie_is_found_through_moves_and_a_factor(name: str) -> None:
    function, shape, factor, joined = LYING[name]
    rng = np.random.default_rng(0)
    w, s = (rng.standard_normal(sizes).astype(np.float32) for sizes in (shape, factor))
    with ir.Context():
        text = str(jax.jit(function).lower(w, s).compiler_ir("stablehlo"))
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        (main,) = (op for op in module.body.operations if op.operation.name == "func.func")
        block = main.regions[0].blocks[0]
        found = find_laid_out(list(block.operations)[-1].operands[0])
        assert found is not None and found.memory == block.arguments[0]
        assert len(found.joined) == joined
        given = function(w, s)
        at, by = (np.full(1, start) for start in found.start)
        for axis in found.joined:
            at = (at[:, None] + np.arange(axis.size) * axis.step).reshape(-1)
            by = (by[:, None] + np.arange(axis.size) * axis.scale).reshape(-1)
        got = w.reshape(-1)[at]
        if found.factor is not None:
            assert found.factor == block.arguments[1]
            got = got * s.reshape(-1)[by]
        np.testing.assert_array_equal(got.reshape(given.shape), given)


def test_what_no_steps_say_is_not_found() -> None:
    with ir.Context():
        lowered = jax.jit(lambda w: jnp.exp(w[::-1]).T).lower(np.zeros((4, 6), np.float32))
        module = ir.Module.parse(str(lowered.compiler_ir("stablehlo")))
        (main,) = module.body.operations
        value = list(main.regions[0].blocks[0].operations)[-1].operands[0]
        found = find_laid_out(value)
        assert found is not None and found.memory.owner.name == "stablehlo.exponential"
        assert [axis.step for (axis,) in laid_out_here(value).axes] == [4, 1]


_PROGRAM = """
util.global private @w = {w} : tensor<36x32x3x3xf32>
util.global private @s = {s} : tensor<36xf32>
util.global private @d = {d} : tensor<40x132xf32>
func.func @main(%x: tensor<1x30x28x32xf32>, %y: tensor<20x132xf32>)
    -> (tensor<1x30x28x36xf32>, tensor<20x40xf32>) {{
  %w = util.global.load @w : tensor<36x32x3x3xf32>
  %s = util.global.load @s : tensor<36xf32>
  %d = util.global.load @d : tensor<40x132xf32>
  %f = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<36xf32>) -> tensor<36x32x3x3xf32>
  %g = stablehlo.multiply %w, %f : tensor<36x32x3x3xf32>
  %h = stablehlo.transpose %g, dims = [2, 3, 1, 0] :
      (tensor<36x32x3x3xf32>) -> tensor<3x3x32x36xf32>
  %c = stablehlo.convolution(%x, %h)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {{pad = [[1, 1], [1, 1]]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} :
      (tensor<1x30x28x32xf32>, tensor<3x3x32x36xf32>) -> tensor<1x30x28x36xf32>
  %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<40x132xf32>) -> tensor<132x40xf32>
  %p = stablehlo.dot_general %y, %t, contracting_dims = [1] x [0] :
      (tensor<20x132xf32>, tensor<132x40xf32>) -> tensor<20x40xf32>
  return %c, %p : tensor<1x30x28x36xf32>, tensor<20x40xf32>
}}
"""


FROM_FILE = {name: f'#flow.parameter.named<"model"::"{name}">' for name in "wsd"}


def _placed(**globals_: str) -> tuple[str, list[str]]:
    said = Answers()
    with ir.Context():
        module = ir.Module.parse(_PROGRAM.format(**globals_))
        VulkanKernels(gpu=PHONE.gpu, answers=said, limits=PHONE.limits).run(module)
        assert module.operation.verify()
        return str(module), [str(each.outcome) for each in said]


@pytest.mark.vulkan
def test_weights_as_a_framework_wrote_them_give_what_the_operations_do(
    tmp_path, monkeypatch
) -> None:
    rng = np.random.default_rng(3)
    shapes = [(36, 32, 3, 3), (36,), (40, 132), (1, 30, 28, 32), (20, 132)]
    w, s, d, x, y = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    layout = ("NHWC", "OIHW", "NHWC")
    with jax.default_matmul_precision("highest"):
        scaled = w * s[:, None, None, None]
        right = jax.lax.conv_general_dilated(x, scaled, (1, 1), "SAME", dimension_numbers=layout)
    file = tmp_path / "model.safetensors"
    save_file({"w": w, "s": s, "d": d}, file)
    for launch, kernel in ((-1e6, "winograd_weights_scaled_f32"), (1e6, "turn_scaled_f32")):
        monkeypatch.setattr(winograd, "_LAUNCH", launch)  # whether it is Winograd's
        text, _ = _placed(**FROM_FILE)
        assert f"@edgec_{kernel}" in text and "@edgec_turn_f32" in text
        assert "stablehlo.transpose" not in text and "stablehlo.multiply" not in text
        conv, product = answers(text, [x, y], tmp_path, weights=file)
        assert np.linalg.norm(conv - right) / np.linalg.norm(right) < 3e-6
        assert np.linalg.norm(product - y @ d.T) / np.linalg.norm(y @ d.T) < 1e-6


@pytest.mark.parametrize("launch", [-1e6, 1e6])
def test_what_lies_in_the_module_is_left_to_the_compiler_which_evaluates_it(
    launch: float, monkeypatch
) -> None:
    monkeypatch.setattr(winograd, "_LAUNCH", launch)
    text, _ = _placed(**dict.fromkeys("wsd", "dense<0.5>"))
    assert "flow.dispatch" in text and "edgec_turn" not in text and "_weights" not in text


def test_they_are_turned_once_when_the_module_is_loaded() -> None:
    text, _ = _placed(**FROM_FILE)
    flags = [*compile_flags(PHONE), "--iree-input-type=stablehlo"]
    command = [compiler_path(), "-", "--compile-to=global-optimization", *flags]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    loaded, called = done.stdout.split("util.func public @main")
    assert loaded.count("flow.dispatch @edgec_turn") == 2
    assert "edgec_turn" not in called and "flow.dispatch @edgec_" in called
