"""Install the wheel of edgec-runtime in a bare Debian and run a module there: sizes and times.

`python scripts/bare.py [--suite bookworm] [--mirror URL]`, as root, with debootstrap and the
network of Debian and of pip. Only the wheels and a module go from this machine into the container,
which has Python, no compiler and no framework.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from edgec.exporters import export
from edgec.toolchain import CompileOptions, compile

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "python3,python3-pip,python3-venv"
RUN = """
import time
begun = time.perf_counter()
import numpy as np
numpy = time.perf_counter()
from edgec import runtime
with runtime.load("/net.vmfb") as model:
    loaded = time.perf_counter()
    scores = np.asarray(model.main(np.load("/x.npy"))["scores"])
    called = time.perf_counter()
    device = model.device.uri
np.testing.assert_allclose(scores, np.load("/y.npy"), rtol=1e-4, atol=1e-5)
print(f"right on {device}: NumPy imported in {(numpy - begun) * 1e3:.0f} ms, edgec.runtime "
      f"imported and the module loaded in {(loaded - numpy) * 1e3:.0f} ms, "
      f"first call {(called - loaded) * 1e3:.2f} ms")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--mirror", help="default: debootstrap's own")
    given = parser.parse_args()
    if shutil.which("debootstrap") is None:
        print("debootstrap is missing\n  next: apt install debootstrap", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="edgec-bare-") as folder:
        bare = Path(folder, "root")
        mirror = [given.mirror] if given.mirror else []
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", given.suite, bare,
            *mirror)  # fmt: skip
        print(f"Debian {(bare / 'etc/debian_version').read_text().strip()}, {PACKAGES}")
        wheel = put_wheels(bare)
        print(f"{wheel.name}: {wheel.stat().st_size / 1000:.1f} KB")
        put_module(bare)
        within = ("chroot", bare)
        run(*within, "python3", "-m", "venv", "/venv")
        before = size_of(bare / "venv")
        begun = time.perf_counter()
        run(*within, "/venv/bin/pip", "install", "-q", "--no-index", "--find-links=/wheels",
            "edgec-runtime")  # fmt: skip
        print(f"pip install: {time.perf_counter() - begun:.1f} s")
        site = next((bare / "venv/lib").glob("python3*/site-packages"))
        for name in ("edgec", "numpy", "numpy.libs"):
            print(f"installed {name}: {size_of(site / name) / 1e6:.2f} MB")
        print(f"installed in all: {(size_of(bare / 'venv') - before) / 1e6:.1f} MB")
        print(run(*within, "/venv/bin/pip", "list", "--format=freeze").strip().replace("\n", ", "))
        for _ in range(2):  # the first reads files that nobody has read
            print(run(*within, "/venv/bin/python", "-c", RUN).strip())
    return 0


def put_wheels(bare: Path) -> Path:
    """The wheel of the runtime, and NumPy's for the container's Python."""
    wheels = bare / "wheels"
    run(sys.executable, ROOT / "scripts" / "wheels.py", "manylinux-x86_64")
    made = max((ROOT / "dist").glob("edgec_runtime-*manylinux*x86_64.whl"), key=_time)
    version = next((bare / "usr/bin").glob("python3.*")).name.removeprefix("python")
    wheels.mkdir()
    shutil.copy(made, wheels)
    run(sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "--no-deps",
        f"--python-version={version}", "--dest", wheels, "numpy")  # fmt: skip
    return wheels / made.name


def _time(path: Path) -> float:
    return path.stat().st_mtime


def put_module(bare: Path) -> None:
    """A module, an input and JAX's answer."""
    import jax.numpy as jnp

    weights = np.random.default_rng(0).standard_normal((64, 10)).astype(np.float32)
    x = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    program = export(lambda x: {"scores": jnp.tanh(x @ weights)}, (x,))
    compile(program, "cpu:x86-64", CompileOptions(output=bare / "net.vmfb"))
    np.save(bare / "x.npy", x)
    np.save(bare / "y.npy", np.tanh(x @ weights))


def run(*command: str | Path) -> str:
    """What a command prints; it has to end well."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print((done.stdout + done.stderr)[-2000:], file=sys.stderr)
        raise SystemExit(f"{command[0]} failed")
    return done.stdout


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(f.lstat().st_size for f in folder.rglob("*") if f.is_file() and not f.is_symlink())


if __name__ == "__main__":
    sys.exit(main())
