"""The picture of `samples/web_digits`: a digit is drawn with the mouse, and the page is taken.

python -m benchmarks.web.screenshot build/web_digits samples/web_digits/screenshot.png
"""

import sys
import time
from pathlib import Path

from benchmarks.web.chromium import Chromium, Page, serve
from benchmarks.web.handwriting import STROKES

__all__ = ["draw"]

WIDTH, HEIGHT = 900, 680


def draw(page: Page, digit: int) -> None:
    """Write a digit on the page's sheet, as somebody with a mouse would."""
    x, y, width, height = page.run(
        "(({ x, y, width, height }) => [x, y, width, height])"
        "(document.getElementById('sheet').getBoundingClientRect())"
    )
    for stroke in STROKES[digit]:
        page.drag([(x + width * across, y + height * down) for across, down in stroke])


def main() -> None:
    folder, file = (Path(word) for word in sys.argv[1:])
    with serve(folder) as address, Chromium() as browser:
        page = browser.open(f"{address}/index.html", width=WIDTH, height=HEIGHT)
        page.wait("document.body.dataset.offline")
        draw(page, 6)
        page.wait("document.getElementById('digit').value === '6'")
        time.sleep(0.5)  # until the bars stand still
        page.screenshot(file)
    print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
