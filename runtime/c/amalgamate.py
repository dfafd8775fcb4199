"""All of edgert to two files, `edgert.h` and `edgert.c`, for those who want no build system.

python runtime/c/amalgamate.py FOLDER [--text]
cc -std=c11 -O2 -c FOLDER/edgert.c        # and link with -lm -lpthread

With `--text` come `edgert_text.h` and `edgert_text.c`, for language models.
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
PUBLIC = SOURCE / "include" / "edgert"
_INCLUDE = re.compile(r'#include "([^"]+)"\n')
# A function that a header of ours declares: it begins a line with the type that it gives.
_DECLARED = re.compile(
    r"^(?!(?:typedef|static|extern|return|case)\b)(?=[a-z][\w *]*\w\([^;{}]*\);)", re.MULTILINE
)
# What some sources define before their first system header has to come before all of them.
_FIRST = (
    "/* edgert in one file; made by amalgamate.py from the sources: read those. */\n"
    "#if !defined(_GNU_SOURCE)\n#define _GNU_SOURCE 1\n#endif\n"
    # All functions are the file's own, and not every build uses all.
    "#if defined(__GNUC__)\n"
    '#pragma GCC diagnostic ignored "-Wunused-function"\n'
    "#endif\n"
)


def _inlined(file: Path, seen: set[Path]) -> str:
    """A file's text with each of our headers in place of its first mention.

    What a header declares stays in the one file, so compilers may take functions into those that
    call them: some 2 % less code.
    """

    def replace(found: re.Match[str]) -> str:
        if found[1].startswith("edgert/"):
            return f'#include "{found[1].removeprefix("edgert/")}"\n'
        header = (file.parent / found[1]).resolve()
        if header in seen:
            return ""
        seen.add(header)
        return _DECLARED.sub("static ", _inlined(header, seen))

    return _INCLUDE.sub(replace, file.read_text(encoding="utf-8"))


def amalgamate(folder: Path, *, text: bool = False) -> None:
    """Write the two files, and those of `edgert_text`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, sources in (("edgert", "src/**/*.c"), *([("edgert_text", "text/*.c")] * text)):
        seen: set[Path] = set()
        parts = [_FIRST]
        for file in sorted(SOURCE.glob(sources)):
            place = file.relative_to(SOURCE).as_posix()
            parts.append(f"\n/* ==== {place} ==== */\n\n{_inlined(file, seen)}")
        (folder / f"{name}.c").write_text("".join(parts), encoding="utf-8")
        header = (PUBLIC / f"{name}.h").read_text(encoding="utf-8")
        header = header.replace('#include "edgert/', '#include "')
        (folder / f"{name}.h").write_text(header, encoding="utf-8")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--text"]
    if len(words) != 1 or words[0].startswith("-"):
        sys.exit(__doc__)
    amalgamate(Path(words[0]), text=len(words) < len(sys.argv) - 1)
