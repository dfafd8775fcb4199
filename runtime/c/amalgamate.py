"""All of edgert to two files, `edgert.h` and `edgert.c`, for those who want no build system.

python runtime/c/amalgamate.py FOLDER
cc -std=c11 -O2 -c FOLDER/edgert.c        # and link with -lm -lpthread
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
PUBLIC = SOURCE / "include" / "edgert" / "edgert.h"
_INCLUDE = re.compile(r'#include "([^"]+)"\n')
# What some sources define before their first system header has to come before all of them.
_FIRST = (
    "/* edgert in one file; made by amalgamate.py from the sources: read those. */\n"
    "#if !defined(_GNU_SOURCE)\n#define _GNU_SOURCE 1\n#endif\n"
    # clang takes a header's inline functions for the file's own here, and not every build uses all.
    '#if defined(__clang__)\n#pragma clang diagnostic ignored "-Wunused-function"\n#endif\n'
)


def _inlined(file: Path, seen: set[Path]) -> str:
    """A file's text with each of our headers in place of its first mention."""

    def replace(found: re.Match[str]) -> str:
        if found[1] == "edgert/edgert.h":
            return '#include "edgert.h"\n'
        header = (file.parent / found[1]).resolve()
        if header in seen:
            return ""
        seen.add(header)
        return _inlined(header, seen)

    return _INCLUDE.sub(replace, file.read_text(encoding="utf-8"))


def amalgamate(folder: Path) -> None:
    """Write the two files."""
    seen: set[Path] = set()
    parts = [_FIRST]
    for file in sorted(SOURCE.glob("src/**/*.c")):
        name = file.relative_to(SOURCE)
        parts.append(f"\n/* ==== {name.as_posix()} ==== */\n\n{_inlined(file, seen)}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "edgert.c").write_text("".join(parts), encoding="utf-8")
    (folder / "edgert.h").write_text(PUBLIC.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    amalgamate(Path(sys.argv[1]))
