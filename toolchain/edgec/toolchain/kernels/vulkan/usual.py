"""Every kernel with its integers as arguments to the archive that serves where no glslang is."""

import sys
from pathlib import Path

from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from edgec.toolchain.kernels.vulkan.prebuilt import ARCHIVE, write
from edgec.toolchain.kernels.vulkan.shaders import shaders
from edgec.toolchain.kernels.vulkan.variants import Variant

__all__ = ["usual"]


def usual() -> list[Variant]:
    """The kernels of the archive."""
    return [shader.variant({}, folds=False) for shader in shaders()]


def main() -> int:
    """Compile them into the file that is named, or the one in the repository."""
    found = tools()
    if found is None:
        print("glslangValidator and spirv-opt are not here", file=sys.stderr)
        print("  next: pip install 'edgec[vulkan]'", file=sys.stderr)
        return 2
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ARCHIVE
    print(f"{path}: {write(path, usual(), found)} kernels, {path.stat().st_size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
