"""The child of `elsewhere`: saved Keras models opened on JAX and traced, answers in a file.

python -m edgec.exporters.from_keras.on_jax FOLDER
"""

import pickle
import sys
from dataclasses import replace
from pathlib import Path

from edgec.exporters.from_keras import export as from_keras
from edgec.exporters.from_keras.elsewhere import ANSWER, HINT, MODELS, TASK, NotReopened
from edgec.exporters.traced import TracedFunction
from edgec.runtime.errors import EdgecError, SourceError

__all__ = ["main"]


def main() -> int:
    """Do the task in the folder, and leave what was traced, or the error, beside it."""
    folder = Path(sys.argv[1])
    bundle, dynamic, values = pickle.loads((folder / TASK).read_bytes())
    result: EdgecError | tuple[TracedFunction, ...]
    try:
        models = [
            from_keras.load(folder / MODELS.format(number), signatures=()).entries[0].function
            for number in range(len(bundle.entries))
        ]
        entries = tuple(replace(e, function=m) for e, m in zip(bundle.entries, models, strict=True))
        result = from_keras.trace(replace(bundle, entries=entries), dynamic=dynamic, values=values)
    except SourceError as error:
        result = NotReopened(error.what, where=error.where, hint=HINT, log=error.log)
    except EdgecError as error:
        result = type(error)(error.what, where=error.where, hint=HINT, log=error.log)
    (folder / ANSWER).write_bytes(pickle.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
