"""Triton sources to PTX files and their index. Needs `triton==3.6.0` and NumPy, but no GPU.

Run as `python FOLDER/build.py [NAMES]`, FOLDER being where this file is; what it writes is kept in
the repository, so that neither the wheel nor a user needs Triton.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent
OUTPUT = SOURCES.parent
ARCHITECTURES = {"sm_80": (80, 76), "sm_90a": (90, 80)}
"""Folder to compute capability and PTX version: the lowest that has what the kernels use."""

ELEMENTS = {"f16": "fp16", "bf16": "bf16", "f32": "fp32"}
SHARED = {"sm_80": 101376, "sm_90a": 232448}
"""Bytes of shared memory that every GPU of the family gives one program."""
INTEGERS: dict[str, tuple[str, ...]] = {
    "product": ("m", "n", "k", "k_part", "a_step", "b_step", "slot", "what"),
    "large_product": ("m", "n", "k", "what"),
    "convolution": (
        "images", "high", "wide", "inputs", "out_high", "out_wide", "outputs", "pixel",
        "taps_wide", "taps",
        "stride_high", "stride_wide", "pad_high", "pad_wide", "steps_part", "slot", "what",
    ),
    "attention": (
        "queries", "keys", "scale_bits", "q_at", "k_at", "v_at", "q_batch", "k_batch", "v_batch",
        "o_batch", "q_head", "k_head", "v_head", "o_head", "q_row", "k_row", "v_row", "o_row",
        "share",
    ),
    "norm": ("width", "eps_bits", "what"),
}  # fmt: skip
MULTIPLES_OF_8 = {
    "product": ("n", "k", "k_part", "a_step", "b_step"),
    "large_product": ("n", "k"),
    "convolution": ("inputs", "outputs", "pixel"),
    "norm": ("width",),
    "attention": tuple(
        name for name in INTEGERS["attention"] if "_" in name and name != "scale_bits"
    ),
}
POINTERS = {
    "product": ("a", "b", "bias", "other", "c", "work", "counters"),
    "large_product": ("a", "b", "bias", "other", "c"),
    "convolution": ("x", "w", "bias", "other", "c", "work", "counters"),
    "attention": ("q", "k", "v", "o"),
    "norm": ("x", "scale", "shift", "y"),
}
COUNTERS = 32768


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One PTX file: a source, its tile sizes and how Triton is to schedule it."""

    name: str
    source: str
    sizes: dict[str, Any]
    warps: int
    stages: int
    only: str = ""
    version: int = 0


def kernels() -> Iterator[Kernel]:
    """Every kernel, without its element type."""
    for turned in (False, True):
        form = "nt" if turned else "nn"
        for word, m, n, k, warps, stages in (
            ("wide", 128, 256, 64, 8, 3),
            ("square", 128, 128, 64, 4, 4),
            ("middle", 64, 64, 64, 4, 4),
            ("deep", 64, 64, 128, 4, 3),
            ("narrow", 64, 32, 128, 4, 4),
        ):
            sizes = {"BM": m, "BN": n, "BK": k, "TRANSPOSED": turned}
            yield Kernel(
                name=f"product_{form}_{word}",
                source="product",
                sizes=sizes,
                warps=warps,
                stages=stages,
            )
        yield Kernel(
            name=f"product_{form}_large",
            source="large_product",
            sizes={"BM": 128, "BN": 256, "BK": 64, "TRANSPOSED": turned},
            warps=8,
            stages=3,
            only="sm_90a",
            # Below 8.6, Triton stores strides as old assemblers want them; newer drivers read
            # these wrongly (all zeros on an H200).
            version=87,
        )
    for word, m, n, k, warps, stages in (
        ("square", 128, 128, 64, 4, 4),
        ("middle", 64, 64, 64, 4, 4),
        ("thin", 64, 64, 32, 4, 4),
        ("deep", 64, 64, 128, 4, 3),
        ("narrow", 64, 32, 128, 4, 4),
    ):
        sizes = {"BM": m, "BN": n, "BK": k}
        yield Kernel(
            name=f"convolution_{word}",
            source="convolution",
            sizes=sizes,
            warps=warps,
            stages=stages,
        )
    for wide, warps in ((1024, 4), (4096, 8)):
        yield Kernel(name=f"norm_{wide}", source="norm", sizes={"BN": wide}, warps=warps, stages=1)
    for wide in (32, 64, 128):
        for rows, warps in ((16, 1), (64, 4)):
            yield Kernel(
                name=f"attention_{wide}_{rows}",
                source="attention",
                sizes={"BM": rows, "BN": 64, "D": wide},
                warps=warps,
                stages=2,
            )


def build(kernel: Kernel, element: str, folder: str) -> tuple[str, dict[str, int]]:
    """The PTX of a kernel and what a launch must know of it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    capability, version = ARCHITECTURES[folder]
    function = getattr(__import__(kernel.source), kernel.source)
    pointers, integers = POINTERS[kernel.source], INTEGERS[kernel.source]
    types = {"work": "*fp32", "counters": "*i32"}
    signature = {name: types.get(name, f"*{ELEMENTS[element]}") for name in pointers}
    sizes = dict(kernel.sizes)
    if "PRECISION" in function.arg_names:
        sizes["PRECISION"] = "tf32x3"
    if ELEMENTS[element] == "fp32" and "BK" in sizes:
        sizes["BK"] //= 2  # as many bytes
    signature |= dict.fromkeys(integers, "i32") | dict.fromkeys(sizes, "constexpr")
    names = (*pointers, *integers)
    hints = {(i,): [["tt.divisibility", 16]] for i in range(len(pointers))}
    for name in MULTIPLES_OF_8[kernel.source]:
        hints[(names.index(name),)] = [["tt.divisibility", 8]]
    built = triton.compile(
        ASTSource(fn=function, signature=signature, constexprs=sizes, attrs=hints),
        target=GPUTarget("cuda", capability, 32),
        options={
            "num_warps": kernel.warps,
            "num_stages": kernel.stages,
            "ptx_version": kernel.version or version,
        },
    )
    entry = f"edgec_{kernel.name}_{element}"
    facts = {"threads": 32 * built.metadata.num_warps, "shared": built.metadata.shared}
    if built.metadata.global_scratch_size:
        facts["scratch"] = built.metadata.global_scratch_size
    facts |= {name.lower(): value for name, value in sizes.items() if name in ("BM", "BN", "BK")}
    return tidy(built.asm["ptx"], kernel.source, entry, names, "scratch" in facts), facts


def tidy(ptx: str, function: str, entry: str, names: tuple[str, ...], scratch: bool) -> str:
    """PTX as the runtime launches it: pointers, then integers, nothing else.

    Comments and line tables go. Of Triton's two last parameters the profiler's goes, and the
    scratch memory goes too or becomes the last pointer. `counters` becomes memory of the module,
    which the driver sets to 0 at load.
    """
    ptx = re.split(r"^\t\.section\b", ptx, maxsplit=1, flags=re.MULTILINE)[0]
    ptx = re.sub(r"^\t\.(loc|file)\b.*\n", "", ptx, flags=re.MULTILINE)
    ptx = re.sub(r"[ \t]*//.*$", "", ptx, flags=re.MULTILINE)
    ptx = re.sub(r"^\$L__(tmp|func_begin|func_end)\w+:\n", "", ptx, flags=re.MULTILINE)
    ptx = re.sub(r"\n\s*\n+", "\n", ptx)
    head, body = ptx.split(".visible .entry", 1)
    before, rest = body.split(")", 1)
    declared = re.findall(
        r"^\s*(\.param .*?)(" + function + r"_param_\d+),?$", before, re.MULTILINE
    )
    if len(declared) != len(names) + 2:
        raise SystemExit(f"{entry} has {len(declared)} parameters, expected {len(names) + 2}")
    if re.search(rf"{function}_param_{len(names) + 1}\b", rest):
        raise SystemExit(f"{entry} uses the profiler's memory")
    labels = [*names, "scratch" if scratch else ""]
    kept = [(kind, old, name) for (kind, old), name in zip(declared, labels, strict=False)]
    if "counters" in names:
        old = f"{function}_param_{names.index('counters')}"
        head += f".global .align 4 .u32 edgec_counters[{COUNTERS}];\n"
        rest = re.sub(
            rf"ld\.param\.b64(\s+%rd\d+), \[{old}\];", r"mov.u64\1, edgec_counters;", rest
        )
        if old in rest:
            raise SystemExit(f"{entry} reads its counters in an unknown way")
    kept = [item for item in kept if item[2] not in ("", "counters")]
    kept.sort(key=lambda item: ".u64" not in item[0])
    lines = ",\n".join(f"\t{kind}{entry}_{name}" for kind, _, name in kept)
    for _, old, name in sorted(kept, key=lambda item: -len(item[1])):
        rest = re.sub(rf"\b{old}\b", f"{entry}_{name}", rest)
    return f"{head}.visible .entry {entry}(\n{lines}\n){rest}".strip() + "\n"


def main() -> None:
    """Build all, or only the kernels whose names begin with a word of the command line."""
    sys.path.insert(0, str(SOURCES))
    only = tuple(sys.argv[1:])
    for folder in ARCHITECTURES:
        (OUTPUT / folder).mkdir(exist_ok=True)
        path = OUTPUT / folder / "index.json"
        index = json.loads(path.read_text()) if only else {}
        for element in ELEMENTS:
            for kernel in kernels():
                # Three products of a tile of 128 rows do not fit into the registers.
                narrow = ELEMENTS[element] != "fp32" or kernel.sizes.get("BM", 0) <= 64
                wanted = not only or kernel.name.startswith(only)
                if wanted and narrow and kernel.only in ("", folder):
                    name = f"{kernel.name}_{element}"
                    ptx, facts = build(kernel, element, folder)
                    if facts["shared"] <= SHARED[folder]:
                        index[name] = facts
                        (OUTPUT / folder / f"{name}.ptx").write_text(ptx)
        path.write_text(json.dumps(dict(sorted(index.items())), indent=1) + "\n")
        print(f"{folder}: {len(index)} kernels")


if __name__ == "__main__":
    main()
