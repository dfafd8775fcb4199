"""The C package, built and run on this machine and on an emulated one."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.packaging import PackageOptions, make_package
from edgec.packaging.linked import own_symbol
from edgec.runtime.errors import CompileError
from edgec.toolchain import CompileOptions, Program
from tests.packaging.conftest import need, run
from tests.packaging.odd import ODD

ODD_MAIN = """
#include "odd.h"
#include <stdio.h>
#include <string.h>

#define CHECK(what) if (!(what)) { printf("wrong: %s: %s\\n", #what, error.message); return 1; }

int main(void) {
  edgert_error error = {0};
  odd *model = NULL;
  CHECK(odd_open(NULL, &model, &error) == EDGERT_OK);

  uint8_t bytes[2] = {3, 200}, flag[1] = {0}, more[2], other[1];
  float complex_in[4] = {1, -2, 3, -4}, complex_out[4];
  uint16_t half[2] = {0x3c00, 0xc000}, half_out[2];
  CHECK(odd_open_(model, bytes, flag, complex_in, half, more, other, complex_out, half_out,
                  &error) == EDGERT_OK);
  CHECK(more[0] == 6 && more[1] == 144 && other[0] == 1);
  CHECK(complex_out[0] == 2 && complex_out[1] == -4 && complex_out[3] == -8);
  CHECK(memcmp(half, half_out, sizeof half) == 0);

  int16_t numbers[3];
  CHECK(odd_constant(model, numbers, &error) == EDGERT_OK);
  CHECK(numbers[0] == 1 && numbers[1] == -2 && numbers[2] == 3);

  /* Memory that lies well is shared, other memory copied. */
  _Alignas(64) float rows[16] = {1, 2, 3, 4, 5, 6, 7};
  const int64_t n[1] = {1099511627776};
  int64_t back[1];
  edgert_tensor *twice = NULL;
  for (int shift = 0; shift < 2; ++shift) {
    CHECK(odd_double_(model, 2, rows + shift, n, &twice, back, &error) == EDGERT_OK);
    CHECK(back[0] == n[0] && edgert_tensor_rank(twice) == 2);
    CHECK(edgert_tensor_shape(twice)[0] == 2 && edgert_tensor_shape(twice)[1] == 3);
    CHECK(((const float *)edgert_tensor_data(twice))[5] == (float)(2 * (6 + shift)));
    edgert_tensor_release(twice);
  }
  CHECK(odd_double_(model, -1, rows, n, &twice, back, &error) == EDGERT_INVALID_ARGUMENT);
  CHECK(twice == NULL && strstr(error.message, "is -1, and has to be 0 or more"));
  odd_close(model);
  odd_close(NULL);
  puts("all right");
  return 0;
}
"""

SIGNED_MAIN = """
#include "digits.h"
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
  uint8_t key[32];
  for (int i = 0; i < 32; ++i) key[i] = (uint8_t)strtol((char[3]){words[2][2 * i],
      words[2][2 * i + 1], 0}, NULL, 16);
  edgert_error error = {0};
  digits *model;
  int status = digits_open_signed(words[1], count > 2 ? key : NULL, NULL, &model, &error);
  printf("%d %s\\n", status, error.message);
  digits_close(model);
  return 0;
}
"""


def numbers(output: str, name: str) -> np.ndarray:
    """The numbers that the package's main printed for one output."""
    (line,) = re.findall(rf"^{name}: (.*)$", output, re.MULTILINE)
    return np.array(line.split(), np.float64)


@pytest.fixture(scope="module")
def package(digits: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("c") / "digits-c"
    make_package(digits, "c", place, PackageOptions(targets=("cpu:x86-64", "cpu:arm64-v8.2")))
    return place


def test_cmake_builds_it_and_it_answers_as_jax_and_the_reference_runtime(
    package: Path, digits: Program, images: np.ndarray, tmp_path: Path
) -> None:
    need("cmake", "ninja", "cc")
    run("cmake", "-G", "Ninja", "-S", package, "-B", tmp_path, "-DCMAKE_BUILD_TYPE=Debug")
    run("cmake", "--build", tmp_path)
    label, scores = digits.golden.calls[0].outputs
    printed = run(tmp_path / "digits_main")
    assert numbers(printed, "label") == label
    np.testing.assert_allclose(numbers(printed, "scores"), scores[0], rtol=1e-5, atol=1e-5)
    with runtime.load(package) as model:
        for image in images:
            image.tofile(tmp_path / "image.bin")
            printed = run(tmp_path / "digits_main", tmp_path / "image.bin")
            expected = model.main(image[None])
            assert numbers(printed, "label") == expected["label"]
            np.testing.assert_allclose(
                numbers(printed, "scores"), expected["scores"][0], rtol=1e-5, atol=1e-5
            )
    (tmp_path / "image.bin").write_bytes(b"short")
    assert "does not hold 256 bytes" in run(
        tmp_path / "digits_main", tmp_path / "image.bin", code=1
    )


@pytest.mark.slow
def test_it_answers_alike_on_arm_and_says_why_it_does_not_on_an_old_one(
    package: Path, digits: Program, tmp_path: Path
) -> None:
    need("qemu-aarch64")
    pytest.importorskip("ziglang")
    run(
        *(sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-std=c11"),
        # Stripped, as edgert for that machine is: else zig would build another C library.
        *("-O1", "-w", "-static", "-s", "-I.", "-Iedgert"),
        *("digits.c", "digits_modules.S", "main.c"),
        *("edgert/edgert.c", "-lm", "-o", tmp_path / "digits"),
        cwd=package,
    )
    printed = run("qemu-aarch64", "-cpu", "max", tmp_path / "digits")
    assert "variant: cpu:arm64-v8.2\n" in printed
    label, scores = digits.golden.calls[0].outputs
    assert numbers(printed, "label") == label
    np.testing.assert_allclose(numbers(printed, "scores"), scores[0], rtol=1e-5, atol=1e-5)
    said = run("qemu-aarch64", "-cpu", "cortex-a57", tmp_path / "digits", code=1)
    assert "no variant of digits runs here: cpu:arm64-v8.2: " in said
    assert "fullfp16" in said or "dotprod" in said or "lse" in said


@pytest.mark.parametrize(
    "link",
    [pytest.param(False, id="loaded", marks=pytest.mark.slow), pytest.param(True, id="linked")],
)
def test_every_type_and_size_goes_through_the_typed_header(link: bool, tmp_path: Path) -> None:
    need("cc")
    (tmp_path / "odd.mlir").write_text(ODD)
    place = tmp_path / "odd"
    options = PackageOptions(
        targets=("cpu:x86-64",), link=link, compiling=CompileOptions(check=False)
    )
    make_package(tmp_path / "odd.mlir", "c", place, options)
    (tmp_path / "main.c").write_text(ODD_MAIN)
    flags = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I.", "-Iedgert")
    run("cc", *flags, "-c", "main.c", "-o", tmp_path / "example.o", cwd=place)
    kernels = list(place.glob("modules/*.o"))
    assert bool(kernels) == link
    without = ("-DEDGERT_WITH_ELF=0",) if link else ()
    run(*("cc", "-std=c11", "-w", *without, "-c", "edgert/edgert.c"), cwd=place)
    run(
        *("cc", *flags, tmp_path / "main.c", "odd.c", "odd_modules.S", "edgert.o", *kernels),
        *("-lm", "-lpthread", "-o", tmp_path / "main"),
        cwd=place,
    )
    assert run(tmp_path / "main") == "all right\n"


def test_a_file_is_opened_that_a_key_signed_and_no_other(package: Path, tmp_path: Path) -> None:
    need("cc")
    pytest.importorskip("cryptography")
    from edgec.signing import new_key, sign_module

    one, other = new_key(tmp_path / "one.key"), new_key(tmp_path / "other.key")
    file = next(package.glob("modules/*x86*.vmfb"))
    sign_module(file, one, tmp_path / "signed.vmfb")
    changed = bytearray((tmp_path / "signed.vmfb").read_bytes())
    changed[len(changed) // 2] ^= 1
    (tmp_path / "changed.vmfb").write_bytes(changed)
    (tmp_path / "main.c").write_text(SIGNED_MAIN)
    run(
        *("cc", "-std=c11", "-w", "-O0", "-DEDGERT_WITH_SIGNATURES=1", "-I.", "-Iedgert"),
        *(tmp_path / "main.c", "digits.c", "digits_modules.S", "edgert/edgert.c"),
        *("-lm", "-lpthread", "-o", tmp_path / "main"),
        cwd=package,
    )

    def opened(name: str, key: bytes) -> str:
        return run(tmp_path / "main", tmp_path / name, key.hex())

    assert opened("signed.vmfb", one.public).startswith("0 ")
    for name, key in (("signed.vmfb", other), ("changed.vmfb", one)):
        assert opened(name, key.public).startswith("-15 ")
    assert run(tmp_path / "main", file, one.public.hex()).startswith("-15 ")


def test_kernels_of_two_models_have_symbols_of_their_own(tmp_path: Path) -> None:
    names = set()
    for model in ("one", "two"):
        library = tmp_path / "kernels.o"
        library.write_bytes(b"\x7fELF\0module_linked_library_query\0.text\0")
        library.with_suffix(".h").write_text("const void**\nmodule_linked_library_query(\nint);")
        names.add(own_symbol(library, model))
        assert not library.with_suffix(".h").exists()
        assert len(library.read_bytes()) == len(b"\x7fELF\0module_linked_library_query\0.text\0")
    assert len(names) == 2
    library.with_suffix(".h").write_text("const void**\nmodule_linked_library_query(\nint);")
    with pytest.raises(CompileError, match="not named as is known"):
        own_symbol(library, "three")


def test_the_readme_is_short_and_names_what_is_there(package: Path) -> None:
    lines = (package / "README.md").read_text().splitlines()
    assert len(lines) <= 12
    assert "digits_main" in "".join(lines)
