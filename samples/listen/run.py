"""Write down what is said in a `.wav` file of up to 30 seconds."""

import argparse
from pathlib import Path

from features import log_mel, samples_of

from edgec.runtime.text import TextModel

ENGLISH = (50258, 50259, 50359, 50363)
"""What a text begins with: start, English, write down, no times."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("sound", type=Path, nargs="+")
    given = parser.parse_args()
    with TextModel(given.module) as model:
        for path in given.sound:
            print(model.generate(log_mel(samples_of(path)), start=ENGLISH).whole().strip())


if __name__ == "__main__":
    main()
