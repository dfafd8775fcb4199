"""The test of a package in C: a program that makes the golden calls and compares."""

from collections.abc import Sequence

from edgec.packaging.bindings import BoundFunction, BoundTensor
from edgec.packaging.c_types import C_TYPES
from edgec.packaging.plan import Plan
from edgec.packaging.selftest import FOLDER, TestCall, TestTensor, sizes_of
from edgec.packaging.templates import render

__all__ = ["write_c_self_test"]


def write_c_self_test(
    plan: Plan,
    functions: Sequence[BoundFunction],
    calls: Sequence[TestCall],
    *,
    opening: str,
    default: str,
) -> None:
    """Write `selftest/selftest.c`.

    Args:
        plan: the package.
        functions: of the model, as the header has them.
        calls: the golden calls.
        opening: how the program opens the model; it may use `path`.
        default: what `path` is where the program is given none.
    """
    bound = {function.signature.name: function for function in functions}
    blocks = [_call(plan.name, bound[call.signature.name], call) for call in calls]
    values = {
        "name": plan.name,
        "title": plan.title.replace("*/", "* /"),
        "data": f"{FOLDER}/selftest.bin",
        "opening": opening,
        "default": default,
        "calls": "\n".join(blocks),
    }
    plan.write(f"{FOLDER}/selftest.c", render("c/selftest.c", values))


def _call(name: str, function: BoundFunction, call: TestCall) -> str:
    sizes = sizes_of(call)
    lines = [f"  if (good) {{ /* {function.signature.name} */"]
    words = ["model", *(str(sizes[dim.name]) for dim in function.sizes.values())]
    words += [
        f"(const {C_TYPES[tensor.dtype].name} *)(data + {given.at})"
        for tensor, given in zip(function.inputs, call.inputs, strict=True)
    ]
    for tensor, expected in zip(function.outputs, call.outputs, strict=True):
        if tensor.known:
            kind = C_TYPES[tensor.dtype].name
            lines.append(f"    {kind} *{tensor.name} = room({expected.value.nbytes});")
            words.append(tensor.name)
        else:
            lines.append(f"    edgert_tensor *{tensor.name} = NULL;")
            words.append(f"&{tensor.name}")
    lines.append(
        f"    good = fine({name}_{function.name}({', '.join([*words, '&error'])}), &error);"
    )
    for tensor, expected in zip(function.outputs, call.outputs, strict=True):
        lines += _compared(tensor, expected)
    return "\n".join([*lines, "  }"])


def _compared(tensor: BoundTensor, expected: TestTensor) -> list[str]:
    kind = C_TYPES[tensor.dtype]
    what = f'"{tensor.name}", {kind.edgert}, {tensor.dtype.bits // 8 // kind.parts}'
    count = expected.value.size * kind.parts
    limits = f"{expected.absolute!r}, {expected.relative!r}"
    given = tensor.name
    lines = []
    if not tensor.known:
        given = f"taken({tensor.name}, {expected.value.nbytes})"
    lines.append(
        f"    if (good) good = alike({what}, {given}, data + {expected.at}, {count}, {limits});"
    )
    lines.append(
        f"    free({tensor.name});"
        if tensor.known
        else f"    edgert_tensor_release({tensor.name});"
    )
    return lines
