"""Build the page: package a language model for pages, and put the page's own files to it.

python samples/web_chat/build.py PROGRAM [FOLDER]  # a .mlirbc; default folder: build/web_chat
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(program: str, folder: Path) -> None:
    """Make `folder`, which any web server can serve; what was there goes."""
    sys.path.insert(0, str(HERE.with_name("web_digits")))
    from site_folder import list_files, make_site

    make_site(folder, program, name="chat", page=HERE / "page")
    list_files(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    destination = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / "web_chat"
    build(sys.argv[1], destination)
    print(f"\npython -m http.server --directory {destination}")
