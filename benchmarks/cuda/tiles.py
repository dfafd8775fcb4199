"""Products of transformers in many tiles to PTX (`compile FOLDER`), and on a GPU to times (`run`).

Times are of the kernel alone, by the driver's events, and of weights that are not in the cache: as
many copies are multiplied in turn as do not fit. Needs nothing but NVIDIA's driver to run.
"""

import argparse
import ctypes
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Size = tuple[int, int, int, str]
"""Rows, columns, what is summed, and how both sides lie."""
Form = tuple[int, int, int, int, int]
SIZES: list[Size] = [
    (m, n, k, layout)
    for m, layout in ((197, "nt"), (128, "nn"))
    for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072))
]
FORMS: list[Form] = [
    # rows, columns, inner, warps, stages
    *((64, 64, 64, 4, 4), (64, 64, 64, 4, 6), (64, 64, 64, 4, 8), (64, 64, 64, 4, 12)),
    *((64, 64, 128, 4, 3), (64, 64, 128, 4, 5), (64, 32, 128, 4, 4), (64, 32, 64, 4, 8)),
    *((64, 32, 64, 4, 14), (32, 64, 64, 4, 8), (32, 64, 64, 4, 14), (32, 32, 128, 4, 6)),
    (64, 128, 64, 4, 6),
]
_MOST_PROGRAMS = 264
"""Two for each multiprocessor of an H200: with more, sums are not cut into parts."""
COPIES = 24
CALLS = 96


def compile_all(folder: Path) -> None:
    """Products of f16, as in transformers of a text and of an image."""
    compile_products(folder, SIZES, FORMS, "f16")


def compile_products(
    folder: Path, sizes: Sequence[Size], forms: Sequence[Form], element: str
) -> None:
    """The PTX of every tile for every size, how to launch it, and which of them edgec takes."""
    import math

    from iree.compiler import ir

    from edgec.targets import find
    from edgec.toolchain.kernels.cuda import products
    from edgec.toolchain.kernels.cuda.choice import Choice, choose
    from edgec.toolchain.kernels.cuda.library import Library, variant_of
    from edgec.toolchain.kernels.cuda.placing import place_kernels
    from edgec.toolchain.kernels.cuda.triton_compiler import TritonCompiler
    from edgec.toolchain.kernels.gpu.dispatches import Binary
    from edgec.toolchain.kernels.gpu.tiles import ProductKey

    gpu = find("cuda:sm_90").gpu
    if gpu is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    width = 4 if element == "f32" else 2
    for m, n, k, layout in sizes:
        text = ProductKey(batch=1, m=m, k=k, n=n, layout=layout, element=element).program
        taken = choose(gpu, (m, n, k), f32=element == "f32", along=layout == "nt", large=False)
        for rows, columns, inner, warps, stages in forms:
            tiles = math.ceil(m / rows) * math.ceil(n / columns)
            steps = math.ceil(k / inner)
            if (rows + columns) * inner * width * stages > gpu.shared_memory:
                continue
            for parts in (1, 2, 4, 8, 16):
                each = math.ceil(steps / parts)
                if parts > 1 and (
                    tiles * parts > _MOST_PROGRAMS
                    or steps < 4 * parts
                    or math.ceil(steps / each) != parts
                ):
                    continue
                choice = Choice(
                    form=f"{rows}x{columns}x{inner}s{stages}",
                    rows=rows,
                    columns=columns,
                    inner=inner,
                    warps=warps,
                    stages=stages,
                    tiles=tiles,
                    parts=parts,
                    steps=each,
                    time=0.0,
                )
                products.choose = lambda *_, choice=choice, **__: choice  # type: ignore[attr-defined]
                with ir.Context(), ir.Location.unknown():
                    module: Any = ir.Module.parse(text)
                    library = Library(module, gpu, TritonCompiler())
                    place_kernels(module, library)
                    if not library.launches:
                        print(f"{choice.form}: {[str(a.outcome) for a in library.answers]}")
                        continue
                    (launch,) = library.launches
                    variant = variant_of(launch, gpu.kernels, folds=True)
                binary = TritonCompiler().find(variant)
                if not isinstance(binary, Binary):
                    continue
                (folder / f"{variant.symbol}.ptx").write_bytes(binary.data)
                of_taken = (taken.rows, taken.columns, taken.inner, taken.parts)
                found.append(
                    {
                        "size": f"{m} x {n} x {k} {layout}",
                        "form": choice.form,
                        "parts": parts,
                        "taken": (rows, columns, inner, parts) == of_taken,
                        **launched(launch, variant, binary),
                        "weights": "b",
                        "copied": n * k * width,
                        "sizes": {
                            **{"a": m * k * width, "c": m * n * width},
                            "work": tiles * parts * rows * columns * 4,
                            "counters": max(launch.counters, 1) * 4,
                        },
                    }
                )
        print(f"{m} x {n} x {k}: {len(found)} kernels", flush=True)
        (folder / "tiles.json").write_text(json.dumps(found))


def launched(launch: Any, variant: Any, binary: Any) -> dict[str, Any]:
    """How a kernel is launched, for `timed`."""
    given = {**launch.numbers, **launch.folded, "slot": 0}
    return {
        "symbol": variant.symbol,
        "pointers": [name for name, kind in variant.types if kind[0] == "*"],
        "numbers": [given[name] for name, kind in variant.types if kind[0] != "*"],
        "grid": launch.grid,
        "threads": binary.threads,
        "shared": binary.shared,
    }


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_char * 64))


class _Launch(ctypes.Structure):
    """CUlaunchConfig: blocks and threads along three axes, shared bytes, the stream, attributes."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_EARLY = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""


class Driver:
    """What is needed of libcuda."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} gave {status}")

    def memory(self, size: int) -> ctypes.c_uint64:
        """Zeros."""
        place = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        self("cuMemsetD8_v2", place, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        return place

    def event(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(made), 0)
        return made


def run_all(folder: Path) -> None:
    """Microseconds of each kernel, the quickest of each size first."""
    driver = Driver()
    rows: dict[str, list[tuple[float, str, int]]] = {}
    taken: dict[str, float] = {}
    for each in json.loads((folder / "tiles.json").read_text()):
        try:
            us = timed(driver, folder, each)
        except RuntimeError as error:
            print(each["size"], each["form"], error)
            continue
        rows.setdefault(each["size"], []).append((us, each["form"], each["parts"]))
        if each.get("taken"):
            taken[each["size"]] = min(us, taken.get(each["size"], us))
    for size, times in rows.items():
        print(size)
        for us, form, parts in sorted(times):
            print(f"  {us:6.2f}  {form} in {parts}")
    if taken:
        longer = [us / min(rows[size])[0] for size, us in taken.items()]
        mean, worst = (100 * (each - 1) for each in (sum(longer) / len(longer), max(longer)))
        print(
            f"edgec's tiles, of {len(taken)} sizes: {mean:.0f} % longer than the quickest", end=""
        )
        print(f", at worst {worst:.0f} %")


def timed(driver: Driver, folder: Path, each: dict[str, Any]) -> float:
    """Microseconds of a kernel, with as many copies of what it names as its weights in turn."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    text = ctypes.create_string_buffer((folder / f"{each['symbol']}.ptx").read_bytes() + b"\0")
    driver("cuModuleLoadData", ctypes.byref(module), text)
    waits = b"griddepcontrol" in text.raw
    name = f"edgec_{each['symbol']}".encode()
    driver("cuModuleGetFunction", ctypes.byref(function), module, name)
    driver("cuFuncSetAttribute", function, 8, each["shared"])
    weights = [driver.memory(each["copied"]) for _ in range(COPIES)]
    places = {name: driver.memory(size) for name, size in each["sizes"].items()}
    spare = next(iter(places.values()))
    numbers = [ctypes.c_int(number) for number in each["numbers"]]

    stream = ctypes.c_void_p()
    driver("cuStreamCreate", ctypes.byref(stream), 1)

    def launch(copy: int) -> None:
        given = {**places, each["weights"]: weights[copy % COPIES]}
        pointers = [given.get(name, spare) for name in each["pointers"]]
        values = [*pointers, *numbers]
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        # As edgert launches it: one that waits by itself begins while the one before still runs.
        early = _Attribute(id=_EARLY, value=(1).to_bytes(4, "little"))
        sizes = (*each["grid"], each["threads"], 1, 1, each["shared"])
        how = _Launch(*sizes, stream, ctypes.pointer(early), int(waits))
        driver("cuLaunchKernelEx", ctypes.byref(how), function, array, None)

    start, end, elapsed = driver.event(), driver.event(), ctypes.c_float()
    best = float("inf")
    # One graph, so that the driver's own launches are not what is timed.
    graph, replay = ctypes.c_void_p(), ctypes.c_void_p()
    driver("cuStreamBeginCapture_v2", stream, 2)
    for copy in range(CALLS):
        launch(copy)
    driver("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver("cuGraphInstantiateWithFlags", ctypes.byref(replay), graph, ctypes.c_ulonglong(0))
    for _ in range(4):
        driver("cuEventRecord", start, stream)
        driver("cuGraphLaunch", replay, stream)
        driver("cuEventRecord", end, stream)
        driver("cuEventSynchronize", end)
        driver("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
        best = min(best, elapsed.value * 1e3 / CALLS)
    for place in (*weights, *places.values()):
        driver("cuMemFree_v2", place)
    driver("cuGraphExecDestroy", replay)
    driver("cuGraphDestroy", graph)
    driver("cuStreamDestroy_v2", stream)
    driver("cuModuleUnload", module)
    return best


def main(compile_all: Callable[[Path], None], said: str | None) -> None:
    """Compile or run, as the command line says; `said` is what it says of itself."""
    parser = argparse.ArgumentParser(description=said)
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    (compile_all if options.what == "compile" else run_all)(options.folder)


if __name__ == "__main__":
    main(compile_all, __doc__)
