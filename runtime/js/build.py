"""Build the npm package `edgec-runtime`, ready for `npm pack`, `npm install` or a web server.

python runtime/js/build.py [FOLDER]        # default: build/js/edgec-runtime
"""

import sys
from pathlib import Path

from edgec.packaging.web_runtime import write_runtime

FOLDER = Path(__file__).resolve().parents[2] / "build" / "js" / "edgec-runtime"

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    write_runtime(folder, text=True)
    print(folder)
