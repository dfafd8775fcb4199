"""Which pages hold measurements, of which code, and what has changed in that code since.

python -m benchmarks.standing [PAGE.md ...]     # a line a page, the stalest last; also `make pages`

A page says the commit that was measured, in the sentence that `measured_at` makes.
"""

import argparse
import functools
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "Page", "commits", "measured_at", "sentence"]

ROOT = Path(__file__).resolve().parents[1]
_SENTENCE = re.compile(r"Measured at commits? ([0-9a-f]{10}(?:(?:, | and )[0-9a-f]{10})*)")
_COMMIT = re.compile(r"[0-9a-f]{10}")
_COMPILER = ("toolchain/edgec/toolchain", "targets")
_RUNTIME = ("runtime/c", "runtime/edgec")


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of measurements.

    Attributes:
        name: the file in docs/.
        command: what writes it.
        measures: the folders whose code its figures are of.
    """

    name: str
    command: str
    measures: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file."""
        return ROOT / "docs" / self.name

    def changes(self) -> list[str]:
        """What has changed since in what it measures: a line a commit, the newest first."""
        since = commits(self.path.read_text(encoding="utf-8"))
        if not since:
            raise ValueError(f"{self.name} does not say at which commit it was measured")
        lines = [_log(commit, self.measures) for commit in since]
        return max(lines, key=len)


PAGES = (
    Page(
        name="benchmarks.md",
        command="make bench",
        measures=(*_COMPILER, *_RUNTIME, "benchmarks/peers"),
    ),
    Page(
        name="benchmarks_sparse.md",
        command="python -m benchmarks.sparse",
        measures=(*_COMPILER, "benchmarks/sparse"),
    ),
    Page(
        name="torch_operators.md",
        command="python -m benchmarks.torch_operators",
        measures=(*_COMPILER, "exporters/edgec/exporters/from_torch", "benchmarks/torch_operators"),
    ),
    Page(
        name="benchmarks_jax_gpu.md",
        command="python -m benchmarks.jax_tests.elsewhere TESTS",
        measures=(*_COMPILER, *_RUNTIME, "runtime/pjrt", "toolchain/edgec/plugins"),
    ),
    Page(
        name="benchmarks_jax.md",
        command="python -m benchmarks.jax_tests TESTS",
        measures=(*_COMPILER, *_RUNTIME, "runtime/pjrt", "toolchain/edgec/plugins"),
    ),
    Page(
        name="benchmarks_torch_compile.md",
        command="python -m benchmarks.torch_compile --write",
        measures=(*_COMPILER, *_RUNTIME, "toolchain/edgec/plugins", "benchmarks/torch_compile"),
    ),
    Page(
        name="benchmarks_edgert.md",
        command="python -m benchmarks.edgert",
        measures=("runtime/c", "benchmarks/edgert"),
    ),
    Page(
        name="benchmarks_cuda.md",
        command="make cuda-modules",
        measures=(*_COMPILER, "benchmarks/cuda"),
    ),
    Page(
        name="benchmarks_cuda_calls.md",
        command="python benchmarks/cuda/calls.py MODULE.vmfb",
        measures=("runtime/c/src/drivers/cuda", "runtime/edgec", "benchmarks/cuda/calls.py"),
    ),
    Page(
        name="benchmarks_vulkan.md",
        command="python benchmarks/vulkan/modules.py FOLDER",
        measures=(*_COMPILER, "benchmarks/vulkan"),
    ),
    Page(
        name="benchmarks_quantised.md",
        command="python -m benchmarks.quantised --keep FOLDER --write",
        measures=(*_COMPILER, *_RUNTIME, "toolchain/edgec/quantising", "benchmarks/quantised"),
    ),
    Page(
        name="benchmarks_text.md",
        command="python -m benchmarks.text MODULE FILE --write",
        measures=(*_COMPILER, *_RUNTIME, "exporters", "benchmarks/text"),
    ),
    Page(
        name="benchmarks_jax_models.md",
        command="python -m benchmarks.jax_models --write",
        measures=(*_COMPILER, *_RUNTIME, "toolchain/edgec/plugins", "benchmarks/jax_models"),
    ),
    Page(
        name="benchmarks_text_gpu.md",
        command="python -m benchmarks.text.gpu_page COMMIT=figures.json",
        measures=(*_COMPILER, *_RUNTIME, "exporters", "benchmarks/text"),
    ),
    Page(
        name="benchmarks_torch.md",
        command="python benchmarks/cuda/torch_modules.py FOLDER",
        measures=(*_COMPILER, "exporters", "benchmarks/cuda"),
    ),
    Page(
        name="benchmarks_vulkan_calls.md",
        command="python benchmarks/vulkan/call_parts.py FOLDER",
        measures=("runtime/c/src/drivers/vulkan", "runtime/edgec", "benchmarks/vulkan"),
    ),
    Page(
        name="benchmarks_vulkan_devices.md",
        command="python benchmarks/vulkan/networks.py FOLDER --engines edgert",
        measures=(*_COMPILER, *_RUNTIME, "exporters", "benchmarks/vulkan"),
    ),
    Page(
        name="benchmarks_vulkan_llvmpipe.md",
        command="python benchmarks/vulkan/networks.py FOLDER --rounds 5 --calls 5",
        measures=(*_COMPILER, *_RUNTIME, "exporters", "benchmarks/vulkan"),
    ),
    Page(
        name="benchmarks_vulkan_networks.md",
        command="python benchmarks/vulkan/networks.py FOLDER",
        measures=(*_COMPILER, *_RUNTIME, "exporters", "benchmarks/vulkan"),
    ),
    Page(
        name="benchmarks_vulkan_software.md",
        command="python -m benchmarks.vulkan.software",
        measures=(*_COMPILER, *_RUNTIME, "benchmarks/vulkan"),
    ),
    Page(
        name="benchmarks_web.md",
        command="python -m benchmarks.web",
        measures=(*_COMPILER, "runtime/c", "runtime/js", "benchmarks/web"),
    ),
    Page(
        name="benchmarks_webgpu.md",
        command="python -m benchmarks.web.gpu",
        measures=(*_COMPILER, "runtime/js", "benchmarks/web"),
    ),
    Page(
        name="coverage.md",
        command="make coverage",
        measures=("exporters", *_COMPILER, "benchmarks/coverage"),
    ),
    Page(
        name="chains.md",
        command="python -m benchmarks.chains",
        measures=(*_COMPILER, *_RUNTIME, "benchmarks/chains"),
    ),
    Page(
        name="operators.md",
        command="make operators",
        measures=(*_COMPILER, "benchmarks/operators"),
    ),
    Page(
        name="ranges.md",
        command="python -m benchmarks.operators.ranges",
        measures=_COMPILER,
    ),
    Page(
        name="drivers.md",
        command="python -m benchmarks.operators.drivers",
        measures=(*_COMPILER, *_RUNTIME),
    ),
    Page(
        name="zoo_processors.md",
        command="python -m benchmarks.zoo.processors STORE",
        measures=(*_COMPILER, *_RUNTIME, "exporters", "benchmarks/zoo"),
    ),
    Page(
        name="zoo.md",
        command="make zoo",
        measures=("exporters", *_COMPILER, *_RUNTIME, "benchmarks/zoo"),
    ),
    Page(
        name="faults.md",
        command="python -m benchmarks.faults",
        measures=("toolchain/edgec/toolchain", "toolchain/edgec/verifying", "benchmarks/faults"),
    ),
    Page(
        name="package.md",
        command="python -m benchmarks.packages",
        measures=("toolchain/edgec/packaging", "runtime/c", "runtime/js", "benchmarks/packages"),
    ),
)


@functools.cache
def measured_at() -> str:
    """The commit whose code is measured now, ten digits: the newest that main has, too.

    On a branch of one's own that is where it left main; its commits may yet change their names.
    """
    for main in ("origin/main", "main"):
        found = _git("merge-base", "HEAD", main)
        if found:
            return found[:10]
    return (_git("rev-parse", "HEAD") or "")[:10]


def sentence(measured: Iterable[str]) -> str:
    """What a page says of the commits that it was measured at."""
    *others, last = dict.fromkeys(measured)
    names = f"{', '.join(others)} and {last}" if others else last
    return f"Measured at commit{'s' if others else ''} {names}."


def commits(text: str) -> list[str]:
    """The commits of a page's sentences, each once."""
    found = [c for names in _SENTENCE.findall(text) for c in _COMMIT.findall(names)]
    return list(dict.fromkeys(found))


def _log(commit: str, paths: Sequence[str]) -> list[str]:
    found = _git("log", "--format=%h %s", f"{commit}..HEAD", "--", *paths)
    if found is None:
        raise ValueError(f"there is no commit {commit} here")
    return found.splitlines()


def _git(*arguments: str) -> str | None:
    """What git prints, or None where it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", help="these pages, with each change; default: all")
    chosen = parser.parse_args().pages
    known = {page.name: page for page in PAGES}
    unknown = set(chosen) - set(known)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: no page of measurements")
    found = {name: known[name].changes() for name in chosen or known}
    for name, changes in sorted(found.items(), key=lambda item: len(item[1])):
        state = f"{len(changes)} changes since" if changes else "of this very code"
        print(f"{name:24} {state:22} {known[name].command}")
        for change in changes if chosen else ():
            print(f"    {change}")


if __name__ == "__main__":
    main()
