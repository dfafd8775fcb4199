"""One worker of `benchmarks.torch_operators`: a share of the operators, a JSON line for each call.

A line with a name alone says which operator is next, so that what kills the worker is known.
"""

import json
import logging
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
import torch.utils._pytree as pytree

_LONGEST = 150
"""Seconds for one call, compilation and all."""


class _Late(Exception):
    """A call takes too long."""


def _late(_number: int, _frame: FrameType | None) -> None:
    raise _Late


def calls(operator: Any, kind: torch.dtype, seed: int, count: int) -> Iterator[Any]:
    """Functions of tensors and their inputs: drawn among an operator's samples."""
    torch.manual_seed(0)
    random.seed(0)
    samples = list(operator.sample_inputs("cpu", kind, requires_grad=False))
    random.Random(f"{operator.name} {seed}").shuffle(samples)
    found = 0
    for sample in samples:
        if found == count:
            return
        made = _call(operator, sample)
        if made is not None:
            found += 1
            yield made


def _call(operator: Any, sample: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """One sample as a function; None where it is no program."""
    leaves, structure = pytree.tree_flatten((sample.input, sample.args, dict(sample.kwargs)))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if not places or any(not leaves[at].numel() for at in places):
        return None

    def function(*tensors: Any) -> Any:
        given = list(leaves)
        for at, tensor in zip(places, tensors, strict=True):
            given[at] = tensor
        first, args, kwargs = pytree.tree_unflatten(given, structure)
        return operator(first, *args, **kwargs)

    inputs = tuple(leaves[at].detach().clone() for at in places)
    try:
        again = tuple(each.clone() for each in inputs)
        answers = [pytree.tree_leaves(function(*given)) for given in (again, inputs)]
    except Exception:  # noqa: BLE001 - eager PyTorch refuses some of its own samples
        return None
    is_same = all(map(_same, *answers)) and all(map(_same, again, (leaves[at] for at in places)))
    return (function, inputs) if is_same and _has_numbers(answers[0]) else None


def _has_numbers(values: list[Any]) -> bool:
    return any(isinstance(value, torch.Tensor) and value.numel() for value in values)


def _same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return bool(one == other)
    if one.layout != other.layout or one.shape != other.shape or one.layout != torch.strided:
        return False
    return bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))


def tried(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[str, str]:
    """What came of one call, and why."""
    from edgec.exporters import export
    from edgec.runtime.errors import WrongAnswer
    from edgec.toolchain import compile as compile_
    from edgec.toolchain.program import Dialect

    signal.alarm(_LONGEST)
    try:
        program = export(function, inputs)
        compile_(program, target="cpu")
    except _Late:
        return "died", f"took over {_LONGEST} s"
    except WrongAnswer as error:
        return "wrong", str(error)[:200]
    except Exception as error:  # noqa: BLE001 - a refusal or edgec's own fault: the text says
        return "refused", f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    return ("right", "") if program.info.dialect is Dialect.STABLEHLO else ("dialect", "")


def main() -> None:
    """Go through a share of the list; arguments as `__main__` gives them."""
    kind, sample, seed, number, workers, behind, names = sys.argv[1:]
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    dtype = getattr(torch, kind)
    only = set(names.split(",")) - {""}
    share = [each for each in op_db if dtype in each.supported_dtypes("cpu")]
    share = [each for each in share if not only or each.name in only]
    waits = bool(behind)
    for operator in share[int(number) :: int(workers)]:
        variant = f".{operator.variant_test_name}" if operator.variant_test_name else ""
        name = f"{operator.name}{variant}"
        if waits:
            waits = name != behind
            continue
        print(json.dumps({"name": name}), flush=True)
        try:
            for function, inputs in calls(operator, dtype, int(seed), int(sample)):
                outcome, why = tried(function, inputs)
                row = {"name": name, "outcome": outcome, "why": why}
                print(json.dumps(row), flush=True)
        except (ImportError, NotImplementedError):  # samples that want another library
            continue


if __name__ == "__main__":
    main()
