"""A long run of the fuzzer, guided by coverage, under AddressSanitizer and UBSan.

    python -m tests.c.fuzzing --executions 10000000          # some half an hour of one core
    python -m tests.c.fuzzing --executions 10000000 --keep   # and keep what it found in corpus.zip

Starts from the inputs in `corpus.zip`: modules of one function for each instruction, and what
earlier runs made of them; and from what `fuzz_inputs.py` makes: whole modules, ones that dispatch
kernels, ones with golden calls, weights files, an executable for Vulkan and one for CUDA, forms of
language models' texts, and what such a model has read. Modules are called on the CPU with kernels
linked in, on the device that computes nothing, and on CUDA's driver with a library in place of
NVIDIA's (`fake_cuda.c`); no code of theirs runs; what is for Vulkan is read for a device that makes
nothing of it. A quarter of all is opened as apps in Java do, where Java's header is (a JDK). The
run is made of rounds, each of which starts from what the last one kept. What crashes, leaks or
hangs ends the run and is left in the file `fuzz-found`.
"""

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.c.fuzz_inputs import inputs
from tests.c.saved_text import model

__all__ = ["CORPUS", "LARGEST", "add_inputs", "build", "unpack", "write_saved_model"]

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "runtime" / "c"
CORPUS = HERE / "corpus.zip"
ROUND = 200_000
LARGEST = 2500
"""Bytes of an input that is kept: small ones run fast, and large ones the compiler makes anew."""


def build(folder: Path) -> Path:
    """The fuzzer, compiled into a folder.

    Raises:
        subprocess.CalledProcessError: the compiler fails.
    """
    flags = (
        *("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
        *(
            f"-I{SOURCE / 'include'}",
            f"-I{folder}",
            "-DEDGERT_WITH_ELF=0",
            "-DEDGERT_WITH_VULKAN=1",
        ),
        "-DEDGERT_WITH_CUDA=1",
    )
    write_saved_model(folder)
    java = _java()
    flags += (*java, f"-I{SOURCE / 'include' / 'edgert'}", "-DFUZZ_JNI=1") if java else ()
    main, program = folder / "main.o", folder / "fuzz"
    sources = sorted(map(str, (*SOURCE.glob("src/**/*.c"), *SOURCE.glob("text/*.c"))))
    names = [
        "fuzz.c",
        "fuzz_kernels.c",
        "fuzz_text.c",
        "fuzz_vulkan.c",
        "fuzz_cuda.c",
        *(["fuzz_jni.c"] if java else []),
    ]
    parts = [HERE / name for name in names]
    nvidias = folder / "libcuda.so.1"
    for words in (
        (
            *("-std=gnu11", "-g", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{nvidias.name}"),
            *(str(HERE / "fake_cuda.c"), "-o", str(nvidias)),
        ),
        (*flags, "-c", str(HERE / "fuzz_main.c"), "-o", str(main)),
        (
            *(*flags, "-fsanitize-coverage=trace-pc", *map(str, parts), *sources, str(main)),
            # Linked in, so that it is there under its name before edgert looks for it.
            *("-Wl,--no-as-needed", str(nvidias), f"-Wl,-rpath,{folder}"),
            *("-lm", "-lpthread", "-ldl", "-o", str(program)),
        ),
    ):
        subprocess.run(["cc", *words], check=True)
    return program


def write_saved_model(folder: Path) -> None:
    """The module that `fuzz_text.c` restores saved texts with, for C."""
    numbers = ",".join(map(str, model()))
    text = f"static const _Alignas(64) unsigned char saved_model[] = {{{numbers}}};\n"
    (folder / "fuzz_saved_model.h").write_text(text)


def _java() -> tuple[str, ...]:
    """Where the header of the JDK on the path is; nothing without one."""
    compiler = shutil.which("javac")
    headers = Path(compiler).resolve().parents[1] / "include" if compiler else Path()
    if not (headers / "jni.h").exists():
        return ()
    system = next(each.parent for each in headers.glob("*/jni_md.h"))
    return f"-I{headers}", f"-I{system}"


def unpack(folder: Path) -> Path:
    """The inputs of `corpus.zip` as files in a folder, which is made."""
    with zipfile.ZipFile(CORPUS) as archive:
        archive.extractall(folder)
    return folder


def add_inputs(folder: Path) -> None:
    """Modules, weights, executables for GPUs and forms of texts, as files in a folder."""
    for name, data in inputs():
        (folder / name).write_bytes(data)


def _pack(folder: Path) -> None:
    """Inputs to `corpus.zip`, the same bytes for the same inputs."""
    with zipfile.ZipFile(CORPUS, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(folder.iterdir()):
            if file.stat().st_size <= LARGEST:
                info = zipfile.ZipInfo(file.name)
                archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write the inputs of use to corpus.zip")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        found = unpack(folder / "corpus")
        add_inputs(found)
        left = chosen.executions
        for seed in itertools.count(chosen.seed):
            corpus, found = found, folder / f"found{seed}"
            found.mkdir()
            command = [program, str(min(left, ROUND)), str(seed), corpus, found]
            if subprocess.run(command, check=False).returncode:
                return 1
            left -= ROUND
            if left <= 0:
                break
        if chosen.keep:
            needed = folder / "needed"
            needed.mkdir()
            for file in found.iterdir():
                if file.stat().st_size > LARGEST:
                    file.unlink()
            subprocess.run([program, "0", "1", found, needed], check=True)
            _pack(needed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
