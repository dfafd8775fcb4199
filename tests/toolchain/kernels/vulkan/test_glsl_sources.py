"""What is kept as SPIR-V is of the GLSL sources, and what is compiled is kept in the cache."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.targets import find
from edgec.toolchain.cache import Cache
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.kernels.vulkan import prebuilt
from edgec.toolchain.kernels.vulkan.glsl_compiler import GlslCompiler, compile_variant, tools
from edgec.toolchain.kernels.vulkan.packed_spirv import packed, unpacked
from edgec.toolchain.kernels.vulkan.prebuilt import ARCHIVE, Prebuilt
from edgec.toolchain.kernels.vulkan.shaders import grouped, join, shaders
from edgec.toolchain.kernels.vulkan.usual import usual
from edgec.toolchain.kernels.vulkan.variants import sources_digest

SPIRV = b"\x03\x02\x23\x07"
needs_glslang = pytest.mark.skipif(tools() is None, reason="glslang is not here (edgec[vulkan])")


def test_the_archive_is_of_the_sources_beside_it() -> None:
    about, files = prebuilt.read(ARCHIVE)
    again = "run `python -m edgec.toolchain.kernels.vulkan.usual`"
    assert about["sources"] == sources_digest(), again
    assert set(files) == {variant.symbol for variant in usual()}, again
    assert ARCHIVE.stat().st_size < 100_000


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_any_words_come_back_as_they_were(words) -> None:
    code = np.array([*range(5), *words], "<u4").tobytes()
    assert unpacked(packed(code)) == code


def test_every_kernel_is_in_the_archive_and_fits_every_target() -> None:
    shared = find("vulkan:nvidia-turing").gpu.shared_memory
    for shader in shaders():
        binary = Prebuilt().find(shader.variant({}, folds=False))
        assert isinstance(binary, Binary)
        assert binary.data[:4] == SPIRV
        assert f"edgec_{binary.name}".encode() in binary.data
        assert binary.shared <= shared


def test_the_archive_of_other_sources_is_not_used(monkeypatch) -> None:
    variant = join("f32").variant({}, folds=False)
    assert isinstance(Prebuilt().find(variant), Binary)
    monkeypatch.setattr(prebuilt, "sources_digest", lambda: "changed")
    outcome = Prebuilt().find(variant)
    assert isinstance(outcome, Declined)
    assert "edgec[vulkan]" in outcome.reason


@needs_glslang
def test_what_is_compiled_now_is_what_the_archive_holds() -> None:
    about, files = prebuilt.read(ARCHIVE)
    if about["compiler"] != tools().version:
        pytest.skip("the archive was made by another glslang")
    for shader in (join("f16"), grouped("f32", at_once=False)):
        variant = shader.variant({}, folds=False)
        assert compile_variant(variant, tools()) == unpacked(files[variant.symbol])


@needs_glslang
def test_a_kernel_is_compiled_once_and_constants_make_it_smaller(tmp_path) -> None:
    cache = Cache(folder=tmp_path)
    shader = grouped("f32", at_once=False)
    plain = shader.variant({}, folds=False)
    folded = shader.variant(dict.fromkeys(shader.numbers, 1), folds=True)
    assert set(folded.numbers) == set(shader.numbers) - set(shader.folds)
    compiler = GlslCompiler(tools(), cache)
    whole, small = compiler.find(plain), compiler.find(folded)
    assert len(small.data) < len(whole.data)
    count, _ = cache.usage()
    assert count == 2
    assert GlslCompiler(tools(), cache).find(folded) == small
    assert cache.usage()[0] == count


@needs_glslang
def test_what_glslang_does_not_take_is_declined_with_its_words(tmp_path) -> None:
    broken = replace(join("f32").variant({}, folds=False), numbers=("m",))
    outcome = GlslCompiler(tools(), Cache(folder=tmp_path)).find(broken)
    assert isinstance(outcome, Declined)
    assert "glslang refused join_f32" in outcome.reason
    assert "undeclared" in outcome.reason
