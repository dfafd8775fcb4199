"""Powers of e as softmax takes them, over all of f32 that is not above 0."""

import numpy as np
from iree import runtime
from iree.compiler import compile_str

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.exponential import powers_of_e
from edgec.toolchain.kernels.cpu.source.writer import Writer


def computed(values):
    """What the kernels' own lines make of each value."""
    body = Body(Writer(name="powers", workgroups=(1, 1, 1), sizes=[1]), fused=True)
    result = powers_of_e(body, "%x", "f32")
    lines = "\n".join(body.lines).replace("vector.fma", "math.fma")
    size = f"tensor<{len(values)}xf32>"
    text = f"""
        func.func @f(%a: {size}) -> {size} {{
          %e = tensor.empty() : {size}
          %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
              iterator_types = ["parallel"]}} ins(%a : {size}) outs(%e : {size}) {{
            ^bb0(%x: f32, %o: f32):
              {lines}
              linalg.yield {result} : f32
          }} -> {size}
          return %r : {size}
        }}"""
    code = compile_str(
        text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=host"]
    )
    loaded = runtime.load_vm_flatbuffer(code, driver="local-sync")
    return np.asarray(loaded.f(values))


def test_they_are_those_of_numpy_to_a_unit_in_the_last_place_and_nan_stays_nan():
    bits = np.arange(0, 0x7F800000, 100_003, dtype=np.uint32).view(np.float32)
    close = np.linspace(0, 90, 100_000, dtype=np.float32)
    special = np.array([0.0, 87.33, 87.34, np.inf, np.nan], np.float32)
    values = -np.concatenate([bits, close, special])
    answer = computed(values).astype(np.float64)
    want = np.exp(values.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(answer), np.isnan(want))
    normal = want > 1.18e-38
    np.testing.assert_allclose(answer[normal], want[normal], rtol=1.2e-7)
    assert not answer[want < 1.17e-38].any()
