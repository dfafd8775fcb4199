"""Build every wheel into dist/: edgec, and edgec-runtime for each platform, all on this machine.

`python scripts/wheels.py [PLATFORM ...]`; without platforms all of them. `make wheels` calls it.
Where Triton is, the wheel of edgec takes the usual kernels for CUDA along, for where it is not.
"""

import os
import sys
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime"
sys.path.insert(0, str(RUNTIME))


def kernels_for_cuda() -> None:
    """Make the archive of kernels that edgec's wheel takes along, or say that it takes none."""
    from edgec.toolchain.kernels.cuda.prebuilt import ARCHIVE
    from edgec.toolchain.kernels.cuda.triton_compiler import has_triton

    path = Path(str(ARCHIVE))
    if not has_triton():
        path.unlink(missing_ok=True)  # It may be of other sources.
        print("edgec's wheel takes no kernels for CUDA along: Triton is not here", file=sys.stderr)
        return
    from edgec.toolchain.kernels.cuda.usual import make

    print(make(path))


def main(names: list[str]) -> int:
    from wheel import PLATFORM_VARIABLE, PLATFORMS

    unknown = set(names) - set(PLATFORMS)
    if unknown:
        print(f"no such platform: {', '.join(sorted(unknown))}", file=sys.stderr)
        print(f"  next: choose of {', '.join(PLATFORMS)}", file=sys.stderr)
        return 2
    dist = ROOT / "dist"
    kernels_for_cuda()
    made = [*WheelBuilder(str(ROOT)).build(directory=str(dist))]
    for name in names or PLATFORMS:
        os.environ[PLATFORM_VARIABLE] = name
        made += WheelBuilder(str(RUNTIME)).build(directory=str(dist))
    for path in map(Path, made):
        print(f"{path.stat().st_size / 1000:8.1f} KB  {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
