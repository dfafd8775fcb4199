"""Outcomes of cases of JAX's test files on two platforms to a page: shares, and what is missing."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.standing import sentence

__all__ = ["FILES", "LATER", "OTHERS", "SEVERAL", "Outcomes", "Table", "cause", "cell", "page"]

FILES = (
    *("lax_test", "lax_numpy_test", "nn_test", "random_test", "api_test", "lax_scipy_test"),
    "lax_control_flow_test",
)
OTHERS = tuple(
    f"{name}_test"
    for name in (
        *("lax_numpy_indexing", "lax_numpy_reducers", "lax_numpy_operators", "lax_numpy_einsum"),
        *("lax_numpy_ufuncs", "lax_numpy_vectorize", "lax_numpy_setops", "lax_vmap"),
        *("lax_vmap_op", "lax_autodiff", "linalg", "fft", "image", "ode", "polynomial"),
        *("scipy_fft", "scipy_signal", "scipy_stats", "scipy_ndimage", "scipy_interpolate"),
        *("scipy_optimize", "scipy_spatial", "batching", "custom_root", "custom_linear_solve"),
        *("jet", "random_lax", "random_impl", "sparse_bcoo_bcsr", "sparse", "sparsify"),
        *("lax_scipy_special_functions", "lax_scipy_sparse", "array", "dtypes", "qdwh", "eigh"),
        *("svd", "experimental_rnn", "optimizers", "stax", "generated_fun", "mutable_array"),
        *("checkify", "x64_context", "state", "custom_api", "core", "lobpcg"),
    )
)
"""Files of what one device computes, among which some are drawn."""
SEVERAL = ("pjit_test", "shard_map_test", "array_test")
"""Files of what several devices compute."""
LATER = tuple(
    f"{name}_test"
    for name in (
        *("core", "error_check", "custom_partitioning_sharding_rule", "documentation_coverage"),
        *("debugging_primitives", "custom_root", "batching", "xla_transform"),
    )
)
"""The first eight that `random.Random(20261201).sample(names, 8)` drew of the 115 files, by name,
that had never been run: all but those whose names speak of TPUs, GPUs, Mosaic, Pallas, exports,
debuggers and profilers."""
Outcomes = Mapping[str, Mapping[str, str]]
"""What came of each case, by its name."""


def cause(said: str) -> str:
    """What a failure says, in the words that others of its kind have, too."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "edgec: " in line or "edgert: " in line]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|TooLong|Warning)\b", line)]
    line = (told or named or lines or [""])[-1]
    line = re.sub(r"^.*(?=edgec: |edgert: )", "", line)
    line = re.sub(r"/\S*/", "", line)
    line = re.sub(r"0x[0-9a-f]+|(?<!\w)\d+(\.\d+)?(e[-+]?\d+)?", "N", line)
    return line[:160]


def cell(what: str) -> str:
    """What was said, as a table's cell of code."""
    return f"`{what.replace('|', '/').replace('`', chr(39))}`"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cases of several files.

    Attributes:
        rows: a line of the table a file.
        causes: what failures say, and how many say so.
        passed: cases that are right on edgec,
        of: of so many that are right on XLA's CPU and not skipped on edgec.
    """

    rows: tuple[str, ...]
    causes: Counter[str]
    passed: int
    of: int

    @classmethod
    def made(
        cls, results: Mapping[str, Mapping[str, Outcomes]], files: Sequence[str] = FILES
    ) -> "Table":
        """Count what came of the cases of these files."""
        rows, causes, passed, of = [], Counter[str](), 0, 0
        for name in [each for each in files if each in results]:
            cpu, edgec = results[name]["cpu"], results[name]["edgec"]
            ran = [case for case in edgec if cpu.get(case, {}).get("outcome") == "passed"]
            counted = [case for case in ran if edgec[case]["outcome"] != "skipped"]
            good = [case for case in counted if edgec[case]["outcome"] == "passed"]
            causes.update(cause(edgec[case].get("said", "")) for case in set(counted) - set(good))
            share = f"{len(good) / len(counted):.1%}" if counted else ""
            skipped = len(ran) - len(counted)
            now = f"| {len(good)} | {skipped} | {share} |"
            rows.append(f"| `{name}.py` | {len(edgec)} | {len(ran)} {now}")
            passed, of = passed + len(good), of + len(counted)
        return cls(rows=tuple(rows), causes=causes, passed=passed, of=of)

    def lines(self, head: str = "") -> list[str]:
        """The table of files, under a line that says of when."""
        return [
            *([head, ""] if head else []),
            "| file | cases | right on XLA's CPU | right on edgec | skipped there | |",
            "|---|---|---|---|---|---|",
            *self.rows,
        ]

    @property
    def share(self) -> str:
        """How many are right, in words."""
        return f"{self.passed} of {self.of} pass ({self.passed / max(self.of, 1):.1%})"


def _at_first(
    results: Mapping[str, Mapping[str, Outcomes]],
) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """What came of each case when it was run first."""
    return {
        name: {
            platform: {
                case: {**each, "outcome": each.get("first", each["outcome"])}
                for case, each in cases.items()
            }
            for platform, cases in found.items()
        }
        for name, found in results.items()
    }


def page(
    results: Mapping[str, Mapping[str, Outcomes]],
    held_out: Mapping[str, Mapping[str, Outcomes]],
    several: Mapping[str, Mapping[str, Outcomes]],
    later: Mapping[str, Mapping[str, Outcomes]],
    jax: str,
    measured: Sequence[str],
) -> str:
    """The tables of files, and that of what is missing."""
    table, drawn = Table.made(results), Table.made(results, OTHERS)
    never = Table.made(later, LATER)
    apart, together = Table.made(held_out, (*FILES, *OTHERS)), Table.made(several, SEVERAL)
    causes = table.causes + apart.causes + drawn.causes + together.causes + never.causes
    lines = [
        "# JAX's own tests on edgec",
        "",
        f"Cases of JAX {jax}'s own test files, drawn by a seed, on XLA's CPU and on edgec's "
        "([JAX on edgec's devices](pjrt.md)). Written by `python -m benchmarks.jax_tests TESTS`, "
        f"which takes the folder of these files. {sentence(measured)}",
        "",
        f"**{table.share} of those that pass on XLA's CPU**, "
        "without what JAX skips on a platform that it does not know.",
        "",
        *table.lines(),
        "",
    ]
    if several:
        lines += [
            "## Several devices",
            "",
            "On eight of edgec's CPUs, and of XLA's (`--several`). What they had wrong was looked "
            f"at and mostly mended: **{together.share}**.",
            "",
            *together.lines(),
            "",
        ]
    if held_out:
        lines += [
            "## Held out",
            "",
            "Cases that nobody had run before, and for which nothing was mended "
            f"(`--held-out`): **{apart.share}**.",
            "",
            *apart.lines(),
            "",
        ]
    if drawn.rows:
        lines += [
            "## Files drawn by a seed",
            "",
            f"{len(drawn.rows)} of {len(OTHERS)} other files of what one device computes "
            "(`--drawn`), and cases of each. What they had wrong was looked at and partly mended, "
            "so they are not held out; what was not run again since (`--again`) stands as it was "
            f"at first: **{drawn.share}**.",
            "",
            *drawn.lines(),
            "",
        ]
    if later:
        first = Table.made(_at_first(later), LATER)
        lines += [
            "## Files that nobody had run",
            "",
            f"The first {len(LATER)} that a seed draws of the 115 files that had never been run, "
            "all but those about TPUs, GPUs, Mosaic, Pallas, exports, debuggers and profilers, and "
            "cases of each, with as many devices as a file asks for (`--later`). At first "
            f"{first.share}, two files of which compute nothing on a device "
            "(`custom_partitioning_sharding_rule`, `documentation_coverage`) and one of which JAX "
            "skips on other platforms (`xla_transform`); what they had wrong was looked at and "
            "mended where it could be: "
            f"**{never.share}**.",
            "",
            *first.lines("At first:"),
            "",
            *never.lines("Since:"),
            "",
        ]
    lines += [
        "## What is missing",
        "",
        "| cases | what the first of them says |",
        "|---|---|",
        *(f"| {count} | {cell(what)} |" for what, count in causes.most_common()),
        "",
    ]
    return "\n".join(lines)
