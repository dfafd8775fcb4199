"""Show what edgec does: real models from their framework to modules that run, checked on the way.

Every step is a command that can be typed by hand; each is shown, then run.
"""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("build") / "demo"
TOOLS = Path(sys.executable).parent

# Wide enough for every line of a command's output, also where there is no terminal.
console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Step:
    """A heading, a sentence or two on what happens, and the commands that make it happen."""

    heading: str
    words: str
    commands: tuple[str, ...]


DIGITS = f"{FOLDER}/digits"

STEPS = (
    Step(
        "1  A model in its framework",
        "A small Flax network learns scikit-learn's handwritten digits; 360 are held out.",
        ("python samples/digits/train.py", f"python samples/digits/data.py --to {FOLDER}"),
    ),
    Step(
        "2  Export",
        "JAX traces it to portable StableHLO, and its answers on the held-out digits are kept.",
        (f"edgec export samples/digits/model.py:classifier -o {DIGITS}.mlirbc",),
    ),
    Step(
        "3  Compile, and prove",
        "One module for each target. Each is run on its device and compared with JAX's answers; "
        "a module that is wrong is refused.",
        (
            f"edgec compile {DIGITS}.mlirbc --target=cpu -o {DIGITS}.cpu.vmfb",
            f"edgec compile {DIGITS}.mlirbc --target=vulkan -o {DIGITS}.vulkan.vmfb",
        ),
    ),
    Step(
        "4  Run",
        "labels.npy is what JAX reads in digits.npy. Both modules must read them alike.",
        tuple(
            f"edgec run {DIGITS}.{target}.vmfb --input=@{FOLDER}/digits.npy "
            f"--expected=@{FOLDER}/labels.npy"
            for target in ("cpu", "vulkan")
        ),
    ),
    Step(
        "5  Accuracy side by side",
        "From Python now: the same model in JAX, on the CPU and on Vulkan.",
        ("python samples/digits/run.py",),
    ),
    Step(
        "6  Learning where it runs",
        "The last layer is state on the device. A compiled training step fits it to slanted "
        "handwriting; every loss is compared with JAX.",
        ("python samples/on_device_training/run.py --steps 100",),
    ),
    Step(
        "7  PyTorch too",
        "A transformer with real trained weights embeds sentences; which are alike?",
        ("python samples/sentences/run.py",),
    ),
)

NEXT = """\
What to try next

  source .venv/bin/activate
  edgec devices                                what this machine can run on
  edgec targets                                what edgec can compile for
  edgec bench {digits}.cpu.vmfb       how fast
  edgec inspect {digits}.cpu.vmfb     what is inside
  edgec compile {digits}.mlirbc --target=android -o {folder}

  README.md has ten lines for your own model; docs/ has a page for each verb.
"""


def main() -> int:
    begin = time.monotonic()
    (ROOT / FOLDER).mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        console.print()
        console.print(Rule(Text(step.heading, style="bold"), align="left"))
        console.print(step.words, style="dim")
        for command in step.commands:
            code = _run(command)
            if code != 0:
                console.print(f"\nThis command failed with exit code {code}.", style="bold red")
                return code
    console.print()
    console.print(Rule(style="bold"))
    console.print(f"All of it right, in {time.monotonic() - begin:.0f} s.\n", style="bold green")
    console.print(NEXT.format(digits=DIGITS, folder=FOLDER))
    return 0


def _run(command: str) -> int:
    console.print(f"\n[bold cyan]$[/] [bold]{command}[/]")
    path = f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}"
    start = time.monotonic()
    words = shlex.split(command)
    done = subprocess.run(
        [str(TOOLS / words[0]), *words[1:]],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        check=False,
    )
    console.print(f"[dim]{time.monotonic() - start:.1f} s[/]")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
