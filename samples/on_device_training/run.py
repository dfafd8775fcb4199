"""Let compiled modules learn a new hand, step for step beside JAX.

python samples/on_device_training/run.py [--steps 220] [--plot loss.png]
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from reader import BATCH, PersonalReader, data, personal_reader, slanted, train

from edgec import exporters, runtime, toolchain
from edgec.runtime.errors import EdgecError

TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Course:
    """How one place learned: the loss of each step, and accuracy before and after."""

    where: str
    losses: np.ndarray
    before: float
    after: float


def batches(steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Slanted images f32[32, 8, 8] and their digits i32[32], round and round."""
    learn, _ = data.load()
    images = slanted(learn.images)
    rounds = len(images) // BATCH
    for step in range(steps):
        part = slice(step % rounds * BATCH, (step % rounds + 1) * BATCH)
        yield images[part], learn.labels[part]


def learn(
    where: str,
    predict: Callable[[np.ndarray], np.ndarray],
    train_step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    steps: int,
) -> Course:
    """Measure, take the steps, measure again."""
    _, held_out = data.load()
    images = slanted(held_out.images)
    before = train.accuracy(predict(images), held_out.labels)
    losses = [float(train_step(*batch)) for batch in batches(steps)]
    after = train.accuracy(predict(images), held_out.labels)
    return Course(where=where, losses=np.asarray(losses), before=before, after=after)


def in_jax(steps: int) -> Course:
    import jax

    reader = PersonalReader()
    state = reader.initial
    step, read = jax.jit(reader.train_step), jax.jit(reader.predict)

    def train_step(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        nonlocal state
        state, loss = step(state, images, labels)
        return np.asarray(loss)

    return learn("JAX", lambda images: np.asarray(read(state, images)["label"]), train_step, steps)


def in_module(program: toolchain.Program, target: str, steps: int) -> Course:
    module = toolchain.compile(program, target)
    with runtime.load(module) as loaded:
        return learn(
            target,
            lambda images: loaded["predict"](images)["label"],
            lambda images, labels: loaded["train_step"](images, labels),
            steps,
        )


def table(courses: list[Course]) -> str:
    lines = [
        f"{'':8} {'first loss':>10} {'last 20':>8} {'before':>8} {'after':>8} "
        f"{'furthest from JAX':>18}"
    ]
    for course in courses:
        distance = np.abs(course.losses - courses[0].losses).max()
        lines.append(
            f"{course.where:8} {course.losses[0]:>10.4f} {course.losses[-20:].mean():>8.4f} "
            f"{course.before:>8.1%} {course.after:>8.1%} "
            f"{'' if course is courses[0] else f'{distance:.1e}':>18}"
        )
    return "\n".join(line.rstrip() for line in lines)


def plot(courses: list[Course], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    for course, style in zip(courses, ("-", "--", ":"), strict=False):
        pyplot.plot(course.losses, style, label=course.where)
    pyplot.xlabel("step")
    pyplot.ylabel("loss")
    pyplot.legend()
    pyplot.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--target", action="append", help="default: cpu and vulkan")
    parser.add_argument("--plot", type=Path, help="draw the losses into this file")
    chosen = parser.parse_args()

    courses = [in_jax(chosen.steps)]
    try:
        program = exporters.export(personal_reader())
        for target in chosen.target or ["cpu", "vulkan"]:
            courses.append(in_module(program, target, chosen.steps))
    except EdgecError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"{chosen.steps} steps of {BATCH} slanted digits; accuracy on 360 others\n")
    print(table(courses))
    if chosen.plot:
        plot(courses, chosen.plot)
    far = max(np.abs(course.losses - courses[0].losses).max() for course in courses)
    if far > TOLERANCE:
        print(f"\nA LOSS DIFFERS FROM JAX BY {far:.1e}.")
        return 1
    print("\nEvery step's loss is that of JAX.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
