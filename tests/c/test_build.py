"""edgert as its users build it: two compilers, installed, with kernels linked in, with threads."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.process import compiler_path
from tests.c.conftest import BUILD, SOURCE, run

HERE = Path(__file__).parent
WIDE = """
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %y = stablehlo.tanh %x : tensor<64x128xf32>
  %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<64x128xf32>) -> tensor<128x64xf32>
  %z = stablehlo.dot_general %y, %t, contracting_dims = [1] x [0]
    : (tensor<64x128xf32>, tensor<128x64xf32>) -> tensor<64x64xf32>
  %r = stablehlo.dot_general %z, %y, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  return %r : tensor<64x128xf32>
}
"""


def _wide(x: np.ndarray) -> np.ndarray:
    y = np.tanh(x.astype(np.float64))
    return y @ y.T @ y


# The sizes of edgert, and its amalgamation, have what the small one leaves out.
@pytest.mark.parametrize("preset", ["develop", pytest.param("small", marks=pytest.mark.slow)])
def test_the_presets_build(preset: str, build: Callable[[str], Path]) -> None:
    assert "drivers: cpu" in run(build(preset) / "edgert", "version")


@pytest.mark.slow
def test_clang_finds_nothing_to_warn_of(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    sources = [*SOURCE.glob("src/**/*.c"), *SOURCE.glob("cli/*.c")]
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic"),
        *("-Werror", f"-I{SOURCE / 'include'}", "-D_POSIX_C_SOURCE=200809L", "-lm"),
        *(*sources, "-o", tmp_path / "edgert"),
    )
    assert "drivers: cpu" in run(tmp_path / "edgert", "version")


def test_the_header_is_good_cxx(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    (tmp_path / "use.cc").write_text(
        '#include "edgert/edgert.h"\nint main() { return edgert_abi() == EDGERT_ABI ? 0 : 1; }\n'
    )
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-x", "c++", "-std=c++17", "-Wall", "-Wextra"),
        *("-Wpedantic", "-Werror", f"-I{SOURCE / 'include'}", "-c", tmp_path / "use.cc"),
        *("-o", tmp_path / "use.o"),
    )


def test_an_installed_edgert_is_found_and_the_example_prints_its_answer(
    build: Callable[[str], Path], compile_text: Callable[..., Path], tmp_path: Path
) -> None:
    run("cmake", "--install", build("develop"), "--prefix", tmp_path / "installed")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\n"
        "project(user LANGUAGES C)\n"
        "find_package(edgert 0.1 REQUIRED)\n"
        f"add_executable(first {SOURCE / 'examples' / 'first.c'})\n"
        "target_link_libraries(first PRIVATE edgert::edgert)\n"
    )
    run(
        *("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build"),
        f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}",
    )
    run("cmake", "--build", tmp_path / "build")
    printed = run(tmp_path / "build" / "first", compile_text(WIDE))
    expected = _wide(np.ones((64, 128), np.float32))[0, 0]
    assert float(printed) == pytest.approx(expected, rel=1e-4)


def test_kernels_that_are_linked_in_run_without_loading_code(
    build: Callable[[str], Path], tmp_path: Path
) -> None:
    """The road for systems that let no loaded code run: an object file and its query function."""
    source = tmp_path / "wide.mlir"
    source.write_text(WIDE)
    run(
        *(compiler_path(), source, "-o", tmp_path / "wide.vmfb"),
        *("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"),
        *("--iree-llvmcpu-target-cpu=generic", "--iree-llvmcpu-link-embedded=false"),
        *("--iree-llvmcpu-link-static", "--iree-input-type=stablehlo"),
        f"--iree-llvmcpu-static-library-output-path={tmp_path / 'wide.o'}",
    )
    symbols = run("nm", tmp_path / "wide.o")
    (query,) = {word for word in symbols.split() if word.endswith("_library_query")}
    program = (SOURCE / "examples" / "first.c").read_text()
    program = program.replace(
        "int main(", f"const void *{query}(uint32_t, const void *);\nint main(", 1
    ).replace(
        'edgert_device_create("cpu", NULL,',
        f'edgert_device_create("cpu", &(edgert_device_options){{.size = '
        f"sizeof(edgert_device_options), .libraries = &(edgert_library_query){{{query}}}, "
        ".library_count = 1},",
    )
    (tmp_path / "first.c").write_text(program)
    folder = build("develop")
    run(
        *("cc", "-std=c11", f"-I{SOURCE / 'include'}", tmp_path / "first.c", tmp_path / "wide.o"),
        *(folder / "libedgert.a", "-lm", "-lpthread", "-o", tmp_path / "first"),
    )
    printed = run(tmp_path / "first", tmp_path / "wide.vmfb")
    assert float(printed) == pytest.approx(_wide(np.ones((64, 128), np.float32))[0, 0], rel=1e-4)
    # The same module without its kernels is refused by name.
    done = subprocess.run(
        [folder / "edgert", "run", tmp_path / "wide.vmfb", "--input=64x128xf32=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "not linked into this program" in done.stderr


def test_threads_do_not_race(
    build: Callable[[str], Path], compile_text: Callable[..., Path], tmp_path: Path
) -> None:
    folder = build("threads")
    run(
        *("cc", "-std=c11", "-g", "-O1", "-fsanitize=thread", "-D_POSIX_C_SOURCE=200809L"),
        *("-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{SOURCE / 'include'}"),
        *(HERE / "threads.c", folder / "libedgert.a", "-lm", "-lpthread"),
        *("-o", tmp_path / "threads"),
    )
    run(tmp_path / "threads", compile_text(WIDE), env={"TSAN_OPTIONS": "halt_on_error=1"})


def test_the_build_folder_is_not_tracked() -> None:
    done = subprocess.run(["git", "check-ignore", "-q", BUILD], cwd=SOURCE, check=False)
    assert done.returncode == 0
