"""Convolutions of every kind on the CPU: kernels take them, and answers are those of JAX."""

import jax
import numpy as np
import pytest

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes


def numbers(*shape):
    """The same numbers at every trace of a function, of a size that keeps sums near one."""
    values = np.random.default_rng(shape).standard_normal(shape)
    return (values / np.sqrt(max(1, np.prod(shape[:-1])))).astype(np.float32)


def convolve(
    x, w, groups=1, stride=1, padding="SAME", dilation=1, spread=1, batch_groups=1, order=None
):
    rank = x.ndim - 2
    axes = "DHW"[-rank:]
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride,) * rank,
        padding,
        lhs_dilation=(spread,) * rank,
        rhs_dilation=(dilation,) * rank,
        dimension_numbers=order or (f"N{axes}C", f"{axes}IO", f"N{axes}C"),
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )


IMAGE, LINE, FILM = numbers(2, 9, 11, 48), numbers(2, 21, 48), numbers(1, 5, 6, 7, 24)
CASES = {
    "groups of one vector": (IMAGE, numbers(3, 3, 16, 48), {"groups": 3}),
    "wide groups": (IMAGE, numbers(3, 3, 24, 80), {"groups": 2, "stride": 2}),
    "groups of 24": (IMAGE, numbers(3, 3, 24, 48), {"groups": 2}),
    "groups of 8": (IMAGE, numbers(3, 3, 8, 48), {"groups": 6, "stride": 2}),
    "groups of 4": (IMAGE, numbers(3, 3, 4, 48), {"groups": 12}),
    "groups of 3": (IMAGE, numbers(3, 3, 3, 48), {"groups": 16}),
    "groups of 12": (IMAGE, numbers(1, 1, 12, 48), {"groups": 4}),
    "groups of 5 into 7": (IMAGE[..., :40], numbers(3, 3, 5, 56), {"groups": 8}),
    "groups of 6 into one": (IMAGE, numbers(3, 3, 6, 8), {"groups": 8}),
    "two windows a channel": (IMAGE, numbers(7, 7, 1, 96), {"groups": 48, "stride": 2}),
    "three windows a channel": (IMAGE, numbers(3, 3, 1, 144), {"groups": 48, "dilation": 2}),
    "a large window": (IMAGE, numbers(13, 13, 1, 48), {"groups": 48}),
    "a long window": (IMAGE, numbers(1, 41, 1, 48), {"groups": 48}),
    "groups along a line": (LINE, numbers(5, 8, 48), {"groups": 6, "stride": 2}),
    "a volume": (FILM, numbers(3, 3, 3, 24, 32), {}),
    "a volume in steps": (FILM, numbers(3, 1, 2, 24, 8), {"stride": 2, "dilation": 2}),
    "a volume in groups": (FILM, numbers(3, 3, 3, 4, 24), {"groups": 6, "padding": "VALID"}),
    "a volume by channels": (FILM, numbers(3, 3, 3, 1, 24), {"groups": 24, "stride": 2}),
}


def of_images(x):
    return _all(x, 4)


def of_others(line, film):
    return _all(line, 3) | _all(film, 5)


def _all(x, rank):
    return {
        name: jax.nn.relu(convolve(x[..., : like.shape[-1]], w, **how) + numbers(w.shape[-1]))
        for name, (like, w, how) in CASES.items()
        if like.ndim == rank
    }


def transposed(x):
    """As many kernels as phases, one after the other between each other."""
    y = jax.lax.conv_transpose(x, numbers(4, 4, 48, 40), (2, 2), "SAME")
    return jax.nn.relu(jax.lax.conv_transpose(y, numbers(5, 3, 40, 24), (3, 2), "VALID"))


def test_transposed_convolutions_are_a_kernel_a_phase(tmp_path):
    x = IMAGE[:, :4, :5]
    program = export(transposed, (x,))
    assert run_passes(program, "cpu").changes["cpu-kernels"] == 4 + 6
    with load(compile(program, "cpu", CompileOptions(output=tmp_path / "m.vmfb"))) as loaded:
        np.testing.assert_allclose(loaded.main(x), transposed(x), 1e-4, 1e-4)


@pytest.mark.parametrize(("function", "inputs"), [(of_images, (IMAGE,)), (of_others, (LINE, FILM))])
@pytest.mark.parametrize(
    "target",
    ["cpu", *(pytest.param(f"cpu:x86-64{v}", marks=pytest.mark.slow) for v in ("", "-v3"))],
)
def test_answers_are_those_of_jax(function, inputs, target, tmp_path):
    program = export(function, inputs)
    expected = jax.jit(function)(*inputs)
    assert run_passes(program, target).changes["cpu-kernels"] == len(expected)
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answer = loaded.main(*inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], value, 1e-4, 1e-4, err_msg=name)


OTHERS = {
    "zeros on one side": (IMAGE, numbers(3, 3, 48, 20), {"padding": ((0, 2), (1, 0))}),
    "a cut image": (IMAGE, numbers(3, 3, 48, 20), {"padding": ((-1, 2), (0, -2))}),
    "zeros between pixels": (IMAGE, numbers(3, 2, 48, 20), {"spread": 2, "padding": ((0, 0),) * 2}),
    "zeros between pixels of a line": (
        LINE,
        numbers(4, 48, 16),
        {"spread": 3, "padding": ((3, 1),)},
    ),
    "groups of images": (IMAGE, numbers(3, 3, 48, 20), {"batch_groups": 2}),
    "channels first": (IMAGE, numbers(3, 3, 9, 32), {"order": ("NCHW", "HWIO", "NHWC")}),
    "weights by outputs": (FILM, numbers(20, 2, 24, 3, 2), {"order": ("NDHWC", "ODIHW", "NCDHW")}),
}


SOME = ("wide groups", "groups of 5 into 7", "three windows a channel", "a volume in groups")


@pytest.mark.parametrize(
    "cases",
    [
        {name: CASES[name] for name in SOME} | OTHERS,
        pytest.param(CASES, id="all", marks=pytest.mark.slow),
    ],
)
def test_weights_that_are_inputs_give_what_jax_gives(cases, tmp_path):
    """As in training: they are packed in each call, whatever the groups and windows."""

    def function(line, image, film, weights):
        images = {x.ndim: x for x in (line, image, film)}
        return {
            name: convolve(images[w.ndim][..., : like.shape[-1]], w, **how)
            for (name, (like, _, how)), w in zip(cases.items(), weights, strict=True)
        }

    inputs = (LINE, IMAGE, FILM, [w for _, w, _ in cases.values()])
    program = export(function, inputs)
    report = run_passes(program, "cpu:x86-64-v4")
    assert report.kernels is not None
    left = {each.reason for each in report.kernels.left if "convolution" in each.what}
    assert left <= {"groups of images", "zeros between pixels, or a cut"}
    output = tmp_path / "m.vmfb"
    with load(compile(program, "cpu", CompileOptions(output=output, check=False))) as loaded:
        answer = loaded.main(*inputs)
    for name, value in jax.jit(function)(*inputs).items():
        np.testing.assert_allclose(answer[name], value, 1e-4, 1e-4, err_msg=name)
