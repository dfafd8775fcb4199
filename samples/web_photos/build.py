"""Build the page: export and package the network, and put the page's own files to it.

python samples/web_photos/build.py [FOLDER]        # default: build/web_photos
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def build(folder: Path) -> None:
    """Make `folder`, which any web server can serve; what was there goes."""
    sys.path.insert(0, str(HERE.with_name("web_digits")))
    import network
    from site_folder import list_files, make_site

    model = f"{HERE / 'network.py'}:classifier"
    make_site(folder, model, name="photos", page=HERE / "page")
    (folder / "names.json").write_text(json.dumps(network.names()), encoding="utf-8")
    list_files(folder)


if __name__ == "__main__":
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "web_photos"
    build(destination)
    print(f"\npython -m http.server --directory {destination}")
