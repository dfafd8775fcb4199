"""Build the page: train, export and package the network, and put the page's own files to it.

python samples/web_digits/build.py [FOLDER]        # default: build/web_digits
"""

import sys
from pathlib import Path

from site_folder import list_files, make_site

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(folder: Path) -> None:
    """Make `folder`, which any web server can serve; what was there goes."""
    make_site(folder, f"{HERE / 'reader.py'}:reader", name="digits", page=HERE / "page")
    (folder / "edgec-runtime" / "edgert-threads.wasm").unlink()  # so small a network needs one
    list_files(folder)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "web_digits"
    build(destination)
    print(f"\npython -m http.server --directory {destination}")
