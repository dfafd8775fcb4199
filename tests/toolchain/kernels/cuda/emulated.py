"""Kernels in C on a processor, thread by thread: what a call writes, without a GPU."""

import ctypes
import functools
import hashlib
import math
import os
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

import torch

from edgec.toolchain.kernels.cuda.c_compiler import source_of, types_of
from edgec.toolchain.kernels.cuda.library import Launch, variant_of
from edgec.toolchain.kernels.cuda.variants import Variant

TYPES = {
    "i8": torch.int8,
    "i32": torch.int32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
}
FLAGS = ("-std=c23", "-O1", "-g0", "-shared", "-fPIC", "-DEDGEC_EMULATED", "-fno-sanitize=all")


def emulate(
    launch: Launch,
    tensors: dict[str, torch.Tensor],
    results: int,
) -> torch.Tensor:
    """What a call writes first, so many results, from what it reads by parameter."""
    variant = variant_of(launch, "sm_90a", folds=True)
    written = {
        name: torch.full(
            (math.prod(kind.shape),), float("nan"), dtype=TYPES[str(kind.element_type)]
        )
        for name, kind in launch.writes.items()
    }
    numbers = {**launch.numbers, **launch.folded, "slot": 0}
    given = {**tensors, **written}
    if launch.counters:
        given["counters"] = torch.zeros(launch.counters, dtype=torch.int32)
    arguments = [
        ctypes.c_void_p(given[name].data_ptr()) if kind[0] == "*" else ctypes.c_int(numbers[name])
        for name, kind in variant.types
    ]
    values = [ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in arguments]
    cluster = launch.constants.get("CLUSTER", 1)
    assert launch.grid[0] % cluster == 0
    _library(_text(variant)).edgec_run(
        (ctypes.c_uint * 3)(*launch.grid),
        launch.warps * 32,
        cluster,
        (ctypes.c_void_p * len(values))(*values),
    )
    if launch.counters:
        assert not given["counters"].any(), "counters are left as they were found"
    return torch.cat([each.to(torch.float64) for each in list(written.values())[:results]])


def _text(variant: Variant) -> str:
    """The source of a library whose `edgec_run` takes a grid, threads, a cluster and arguments."""
    kinds = types_of(variant)
    given = " ".join(f"static {kind}{name};" for name, kind in kinds.items())
    read = "".join(
        f"  {name} = *({kind}*)given[{number}];\n"
        for number, (name, kind) in enumerate(kinds.items())
    )
    source = source_of(variant, f"#define KERNEL(name, ...) {given} static void kernel(void)")
    return f"""{source}
void edgec_run(const unsigned sizes[3], unsigned threads, unsigned together, void **given) {{
{read}  run_grid(sizes, threads, together);
}}
"""


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="edgec-emulated-")


@functools.cache
def _library(text: str) -> ctypes.CDLL:
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    source, made = (Path(_folder().name, f"{name}.{end}") for end in ("c", "so"))
    source.write_text(text, encoding="utf-8")
    kernels = resources.files("edgec.toolchain") / "kernels" / "cuda" / "c"
    words = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        *FLAGS,
        f"-I{kernels}",
        f"-I{Path(__file__).parent}",
    ]
    done = subprocess.run(
        [*words, str(source), "-o", str(made)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(made))
