"""Tiles of a GPU's kernels: known by keys, timed alone, and kept where a compile finds them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from iree.compiler import ir

from edgec.targets import find
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cuda import choice as cuda
from edgec.toolchain.kernels.gpu.tiles import ConvolutionKey, ProductKey, Tile, parse_key
from edgec.toolchain.kernels.vulkan import choice as vulkan
from edgec.toolchain.load import load_program
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.evaluate import Evaluator, Subject
from edgec.toolchain.tuning.profile import Outcome, Profile
from edgec.toolchain.tuning.search import tune
from edgec.toolchain.tuning.tiles import expected, tiles_for

ADA, H200 = find("vulkan:nvidia-ada"), find("cuda:sm_90")
PRODUCT = ProductKey(batch=1, m=64, k=512, n=96, layout="nn", element="f32")
KEYS = [
    PRODUCT,
    ProductKey(batch=12, m=197, k=64, n=197, layout="nt", element="f16"),
    ProductKey(batch=1, m=33, k=250, n=40, layout="tt", element="bf16"),
    ConvolutionKey(
        images=2,
        high=15,
        wide=17,
        channels=64,
        window=(3, 5),
        outputs=40,
        out=(8, 6),
        strides=(2, 3),
        pads=(1, 2),
        element="f32",
    ),
    ConvolutionKey(
        images=1,
        high=15,
        wide=17,
        channels=64,
        window=(3, 5),
        outputs=40,
        out=(7, 3),
        strides=(2, 3),
        dilations=(1, 4),
        pads=(0, 4),
        element="f16",
    ),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_key_spells_a_program_and_is_read_back(key) -> None:
    assert parse_key(str(key)) == key
    with ir.Context():
        module = ir.Module.parse(key.program)
        assert module.operation.verify()
        result = str(module.body.operations[0].type.results[0])
    outs = [int(n) for n in re.findall(r"(\d+)x", result)]
    rows, columns = 1, outs.pop()
    for size in outs:
        rows *= size
    m, n, _ = key.sizes
    assert (rows, columns) == (key.batch * m, n)


@pytest.mark.parametrize("text", ["", "product_1x2x3_nn_f32", f"{PRODUCT}x", "convolution_1"])
def test_other_texts_are_no_keys(text: str) -> None:
    assert parse_key(text) is None


@pytest.mark.parametrize("target", [ADA, H200], ids=lambda t: t.name)
def test_a_program_says_the_keys_of_its_kernels_and_takes_their_tiles(target, tmp_path) -> None:
    if target is H200:
        pytest.importorskip("triton")
    source = tmp_path / "product.mlir"
    source.write_text(PRODUCT.program)
    report = run_passes(source, target)
    assert report.tiled == {str(PRODUCT): 1}
    choice = cuda if target is H200 else vulkan
    for tile in tiles_for(PRODUCT, target):
        more = {"f32": True, "along": False} if target is H200 else {}
        chosen = choice.choose(target.gpu, PRODUCT.sizes, wanted=tile, **more)
        assert chosen.tile == tile


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("target", [ADA, H200], ids=lambda t: t.name)
def test_few_tiles_are_tried_the_models_own_first(key, target) -> None:
    found = tiles_for(key, target)
    assert 1 <= len(found) <= 8
    assert len(set(found)) == len(found)
    assert expected(key, target) > 0
    assert tiles_for(key, find("cpu")) == []


def test_a_tile_that_there_is_not_is_the_models() -> None:
    model = vulkan.choose(ADA.gpu, PRODUCT.sizes)
    assert vulkan.choose(ADA.gpu, PRODUCT.sizes, wanted=Tile(form="vast", parts=3)) == model


@pytest.fixture
def subject(tmp_path) -> Subject:
    source = tmp_path / "product.mlir"
    source.write_text(PRODUCT.program)
    return Subject(program=load_program(source), target=ADA)


def test_the_fastest_tile_of_each_kernel_is_kept(subject, tmp_path, fake) -> None:
    """With a timer that is told what is fast."""
    best = tiles_for(PRODUCT, ADA)[3]
    other = str(KEYS[3])

    def seconds(key: str, tile: Tile | None) -> float:
        return 0.5 if key == str(PRODUCT) and tile == best else 1.0

    def verdict(name: str, settings: Settings) -> tuple[Outcome, float]:
        return (Outcome.FASTER, 0.8) if settings.tiles else (Outcome.SLOWER, 1.1)

    pool = fake(verdict=verdict, keys={str(PRODUCT): 2, other: 1}, tile=seconds)
    path = tmp_path / "tuned.json"
    done = tune(subject, pool, path, budget=60.0)
    assert done.profile.winner.tiles == {str(PRODUCT): best}
    assert set(done.profile.cut_times) == {str(PRODUCT), other}
    assert Profile.load(path).winner == done.profile.winner
    assert done.profile.finished


def test_a_tile_that_fails_never_wins_and_is_not_tried_again(subject, tmp_path, fake) -> None:
    from edgec.runtime.errors import CompileError

    asked = []

    def seconds(key: str, tile: Tile | None) -> float:
        asked.append(tile)
        if tile is not None:
            raise CompileError("no")
        return 1.0

    pool = fake(
        verdict=lambda name, settings: (Outcome.SLOWER, 1.1), keys={str(PRODUCT): 1}, tile=seconds
    )
    path = tmp_path / "tuned.json"
    first = tune(subject, pool, path, budget=60.0)
    assert first.profile.winner.tiles == {}
    count = len(asked)
    tune(subject, pool, path, budget=60.0, resume=replace(first.profile, finished=False))
    assert len(asked) == count


@pytest.mark.vulkan
def test_tiles_are_timed_on_the_device_and_a_compile_takes_them(subject, tmp_path: Path) -> None:
    evaluator = Evaluator(subject)
    try:
        assert evaluator.tiled() == {str(PRODUCT): 1}
        model, *others = tiles_for(PRODUCT, ADA)
        other = next(tile for tile in others if tile.form != model.form)
        assert 0 < evaluator.tile_time(str(PRODUCT), None, 60.0) < 1
        assert 0 < evaluator.tile_time(str(PRODUCT), other, 60.0) < 1
        assert evaluator.tile_time(str(PRODUCT), other, 0.0) is None
    finally:
        evaluator.close()
    sizes = []
    for number, tiles in enumerate(({}, {str(PRODUCT): other})):
        options = CompileOptions(output=tmp_path / f"{number}.vmfb", tiles=tiles, check=False)
        made = compile(subject.program, ADA, options).path.read_bytes()
        sizes.append({word for word in ("small", "middle") if f"_nn_{word}_".encode() in made})
    assert sizes == [{model.form}, {other.form}]
