"""Build every wheel into dist/: edgec, and edgec-runtime for each platform, all on this machine.

`python scripts/wheels.py [PLATFORM ...]`; without platforms all of them. `make wheels` calls it.
"""

import os
import sys
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "runtime"
sys.path.insert(0, str(RUNTIME))


def main(names: list[str]) -> int:
    from wheel import PLATFORM_VARIABLE, PLATFORMS

    unknown = set(names) - set(PLATFORMS)
    if unknown:
        print(f"no such platform: {', '.join(sorted(unknown))}", file=sys.stderr)
        print(f"  next: choose of {', '.join(PLATFORMS)}", file=sys.stderr)
        return 2
    dist = ROOT / "dist"
    made = [*WheelBuilder(str(ROOT)).build(directory=str(dist))]
    for name in names or PLATFORMS:
        os.environ[PLATFORM_VARIABLE] = name
        made += WheelBuilder(str(RUNTIME)).build(directory=str(dist))
    for path in map(Path, made):
        print(f"{path.stat().st_size / 1000:8.1f} KB  {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
