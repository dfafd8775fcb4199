"""Convolutions along one axis, or along three, become ones over rows and columns for GPUs."""

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.convolution import read_convolution
from edgec.toolchain.passes.simplify.plane_windows import PlaneWindows

LINES = {
    "a line": ((2, 23, 6), (3, 6, 8), (1,), [(1, 1)], (1,), 1),
    "a line in steps": ((2, 23, 6), (5, 6, 8), (2,), [(0, 3)], (1,), 1),
    "a line with gaps": ((1, 23, 6), (3, 6, 8), (1,), [(9, 9)], (9,), 1),
    "a line in groups": ((1, 23, 6), (3, 2, 12), (1,), [(1, 2)], (2,), 3),
}
FILMS = {
    "patches of a film": ((2, 6, 8, 8, 3), (2, 4, 4, 3, 8), (2, 4, 4), [(0, 0)] * 3, (1, 1, 1), 1),
    "a film": ((1, 5, 6, 7, 4), (3, 3, 3, 4, 8), (1, 1, 1), [(1, 1)] * 3, (1, 1, 1), 1),
    "a film with gaps": ((1, 7, 6, 7, 4), (3, 2, 3, 4, 8), (2, 1, 2), [(2, 0), (1, 1), (2, 2)],
                         (2, 1, 2), 1),
    "four axes": ((1, 3, 4, 5, 6, 2), (2, 3, 2, 2, 2, 4), (1, 2, 1, 1), [(0, 1), (1, 0)] * 2,
                  (1, 1, 1, 1), 1),
}  # fmt: skip


def convolve(image, weight, strides, pads, gaps, groups):
    axes = "ABDE"[: len(strides)]
    return jax.lax.conv_general_dilated(
        *(image, weight, strides, pads),
        rhs_dilation=gaps,
        dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
        feature_group_count=groups,
    )


def drawn(*shapes):
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, np.float32) for name in LINES | FILMS), ("a line", np.int32), ("a film", np.int32)],
)
def test_windows_over_rows_and_columns_mean_the_same(name, kind) -> None:
    *shapes, strides, pads, gaps, groups = (LINES | FILMS)[name]
    image, weight = ((values * 3).astype(kind) for values in drawn(*shapes))

    def function(image, weight):
        return convolve(image, weight, strides, pads, gaps, groups)

    text = str(jax.jit(function).lower(image, weight).compiler_ir("stablehlo"))
    with ir.Context():
        module = ir.Module.parse(text)
        assert PlaneWindows().run(module) == 1
        assert module.operation.verify()
        (found,) = (op for op in inside(module.operation) if op.name == "stablehlo.convolution")
        assert len(read_convolution(found).axes) == 2
        (main,) = (op for op in inside(module.operation) if op.name == "func.func")
        entry = main.regions[0].blocks[0]
        results = list(entry.operations[len(entry.operations) - 1].operation.operands)
        (answer,) = evaluate(results, dict(zip(entry.arguments, (image, weight), strict=True)))
        assert PlaneWindows().run(module) == 0
    np.testing.assert_allclose(answer, function(image, weight), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("image", "weight", "groups"),
    [
        ((1, 8, 8, 4), (3, 3, 4, 8), 1),
        ((1, 4, 8, 8, 4), (3, 3, 3, 2, 8), 2),
        ((2, 20000, 96, 96, 4), (3, 3, 3, 4, 8), 1),
    ],
    ids=["rows and columns already", "a film in groups", "more than integers reach"],
)
def test_what_stays(image, weight, groups) -> None:
    rank = len(image) - 2
    specs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in (image, weight)]

    def function(image, weight):
        return convolve(image, weight, (1,) * rank, [(1, 1)] * rank, (1,) * rank, groups)

    text = str(jax.jit(function).lower(*specs).compiler_ir("stablehlo"))
    with ir.Context():
        module = ir.Module.parse(text)
        assert PlaneWindows().run(module) == 0


@pytest.mark.parametrize(
    ("target", "planned"),
    [("cpu", False), ("cuda:sm_90", True), ("vulkan:android", True), ("webgpu", True)],
)
def test_it_is_for_gpus_that_have_kernels(target: str, planned: bool) -> None:
    def function(sound):
        return jax.lax.conv_general_dilated(sound, *drawn((8, 4, 3)), (1,), "SAME")

    report = toolchain.run_passes(export(function, drawn((1, 4, 9))), target)
    assert report.changes.get("plane-windows", 0) == planned


@pytest.mark.vulkan
def test_sound_and_film_are_in_kernels_and_right(tmp_path) -> None:
    """As PyTorch lays them out, with the tails that networks of sound have."""
    shapes = [(1, 64, 200), (64, 64, 3), (64,), (1, 3, 4, 32, 32), (64, 3, 2, 8, 8)]
    sound, weight, bias, film, patches = drawn(*shapes)

    def function(sound, film):
        made = sound
        for gap in (1, 3, 9):
            layout = ("NCH", "OIH", "NCH")
            step = jax.lax.conv_general_dilated(
                *(made, weight / 14, (1,), [(gap, gap)]), None, (gap,), layout
            )
            made = jax.nn.relu(step + bias[:, None]) + made
        tokens = jax.lax.conv_general_dilated(
            film, patches / 20, (2, 8, 8), "VALID", None, None, ("NCDHW", "OIDHW", "NCDHW")
        )
        return made, tokens.reshape(1, 64, -1).swapaxes(1, 2)

    program = export(function, (sound, film))
    options = toolchain.CompileOptions(check=False, output=tmp_path / "m.vmfb")
    module = toolchain.compile(program, "vulkan:android", options)
    assert module.facts.kernels.flops > 0.99
    with runtime.load(module, device="vulkan") as loaded:
        answers = loaded.main(sound, film)
    for answer, value in zip(answers, function(sound, film), strict=True):
        np.testing.assert_allclose(answer, value, 1e-4, 1e-4)
