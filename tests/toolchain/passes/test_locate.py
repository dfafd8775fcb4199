"""Kernels know the user's own line: the innermost outside installed packages, first of all."""

from pathlib import Path
from typing import Any

import pytest

from edgec.runtime import profile
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.ir.places import source_line
from edgec.toolchain.passes import locate
from edgec.toolchain.passes.locate import Locate
from edgec.toolchain.stablehlo import parse_stablehlo

TEXT = """
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x32xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<16x32xf32> loc(unknown)
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc(#product)
  %1 = stablehlo.sort_of_mine %0 : tensor<8x32xf32> loc(#wave)
  return %1 : tensor<8x32xf32> loc(unknown)
} loc(unknown)
#library = loc("/x/site-packages/library/dense.py":70:4)
#own = loc("/models/net.py":12:8)
#main = loc("/usr/bin/edgec":6:1)
#stack = loc(callsite(#own at #main))
#product = loc("dot"(callsite(#library at #stack)))
#wave = loc("sort"(callsite(#own at #main)))
"""
SORT = """"stablehlo.sort"(%0) <{dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<8x32xf32>) -> tensor<8x32xf32>"""
SECOND = TEXT.replace("stablehlo.sort_of_mine %0", "stablehlo.cosine %0").replace(
    "} loc(unknown)", "} loc(#main)"
)
TEXT = TEXT.replace("stablehlo.sort_of_mine %0 : tensor<8x32xf32>", SORT)


def test_the_users_own_line_comes_first_and_the_stack_stays() -> None:
    from iree.compiler import ir

    module = parse_stablehlo(TEXT, ir.Context())
    assert Locate().run(module) >= 2
    (function,) = module.body.operations
    constant, product, *_ = function.regions[0].blocks[0].operations
    assert str(constant.location) == "loc(unknown)"
    text = str(product.location)
    assert text.startswith('loc(fused["/models/net.py":12')
    assert '"/x/site-packages/library/dense.py":70:4' in text


def test_a_place_of_many_operations_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from iree.compiler import ir

    read: list[str] = []

    def counted(op: Any) -> str | None:
        read.append(str(op.location))
        return source_line(op)

    monkeypatch.setattr(locate, "source_line", counted)
    body = "\n".join(
        f"  %{i + 1} = stablehlo.cosine %{i} : tensor<4xf32> loc(#stack)" for i in range(20)
    )
    text = f"""func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {{
{body}
  return %20 : tensor<4xf32> loc(#stack)
}} loc(unknown)
#stack = loc(callsite("/models/net.py":12:8 at "/usr/bin/edgec":6:1))
"""
    assert Locate().run(parse_stablehlo(text, ir.Context())) >= 21
    assert len([place for place in read if "net.py" in place]) == 1


def test_a_profile_says_where_each_kernel_comes_from(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(TEXT)
    module = compile(tmp_path / "net.mlir", options=CompileOptions(cache=False, check=False))
    found = profile(module.path, device="edgert://cpu", calls=1)
    places = {dispatch.name: dispatch.where for dispatch in found.dispatches}
    kernels = {name for name in places if "sort" in name or "edgec_product" in name}
    assert len(kernels) == 2, places
    assert {places[name] for name in kernels} == {"/models/net.py:12"}


def test_the_compilers_kernels_have_lines_of_their_own_and_not_the_functions(
    tmp_path: Path,
) -> None:
    text = SECOND.replace(
        "  return %1", "  %2 = stablehlo.transpose %1, dims = [1, 0]\n"
        "    : (tensor<8x32xf32>) -> tensor<32x8xf32> loc(#last)\n  return %2"
    ).replace("return %2 : tensor<8x32xf32>", "return %2 : tensor<32x8xf32>").replace(
        "-> tensor<8x32xf32> {", "-> tensor<32x8xf32> {"
    )  # fmt: skip
    text += '#last = loc(callsite("/models/net.py":20:8 at #main))\n'
    (tmp_path / "net.mlir").write_text(text)
    options = CompileOptions(cache=False, check=False, disabled=("cpu-kernels",))
    module = compile(tmp_path / "net.mlir", options=options)
    found = profile(module.path, device="edgert://cpu", calls=1)
    lines = {dispatch.where for dispatch in found.dispatches if "dispatch" in dispatch.name}
    assert lines
    assert lines <= {"/models/net.py:12", "/models/net.py:20"}
