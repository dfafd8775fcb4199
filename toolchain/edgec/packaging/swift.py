"""A thin Swift class over the typed C header: a method a function, arrays in and out."""

from collections.abc import Mapping, Sequence

from edgec.packaging.bindings import BoundFunction, BoundTensor
from edgec.packaging.c_types import C_TYPES
from edgec.packaging.names import camel, unique
from edgec.packaging.templates import render
from edgec.runtime import Dim

__all__ = ["swift_binding", "swift_example", "swift_text"]

_SWIFT = {
    "uint8_t": "UInt8",
    "int8_t": "Int8",
    "int16_t": "Int16",
    "int32_t": "Int32",
    "int64_t": "Int64",
    "uint16_t": "UInt16",
    "uint32_t": "UInt32",
    "uint64_t": "UInt64",
    "float": "Float",
    "double": "Double",
}


def swift_binding(
    values: Mapping[str, str], functions: Sequence[BoundFunction], files: Mapping[str, str]
) -> str:
    """The class; `files` are the resources by the condition under which each is the right one."""
    lines = []
    for index, (condition, file) in enumerate(files.items()):
        lines += [f"        {'#elseif' if index else '#if'} {condition}"]
        lines += [f'        let file = "{file}"']
    lines += ["        #else"]
    lines += [f'        #error("{values["title"]} was not compiled for this system")']
    lines += ["        #endif"]
    methods = "".join(_method(values, function) for function in functions if _is_plain(function))
    return render("ios/Model.swift", {**values, "files": "\n".join(lines), "methods": methods})


def swift_text(values: Mapping[str, str]) -> str:
    """The class of a language model beside it: prompts and conversations to text."""
    return render("ios/Text.swift", values)


def swift_example(function: BoundFunction) -> str:
    """A call as a README shows it: `let result = try model.main(images: images)`."""
    words = [f"{name}: {name}" for name in (*_sizes(function), *_names(function)[0])]
    return f"let result = try model.{camel(function.name)}({', '.join(words)})"


def _is_plain(function: BoundFunction) -> bool:
    """Whether the size of every result is known; others are called through the C header."""
    return all(tensor.known for tensor in function.outputs)


def _sizes(function: BoundFunction) -> list[str]:
    return [camel(size) for size in function.sizes]


def _names(function: BoundFunction) -> tuple[list[str], list[str]]:
    sizes = _sizes(function)
    inputs = unique([*sizes, *(camel(t.name) for t in function.inputs)])[len(sizes) :]
    return inputs, unique([camel(t.name) for t in function.outputs])


def _element(tensor: BoundTensor) -> str:
    return _SWIFT[C_TYPES[tensor.dtype].name]


def _count(tensor: BoundTensor) -> str:
    words = [f"Int({camel(s)})" if isinstance(s, str) else str(s) for s in tensor.shape]
    parts = C_TYPES[tensor.dtype].parts
    return " * ".join([*words, str(parts)] if parts > 1 else words) or "1"


def _bounds(size: str, dim: Dim) -> tuple[str, str]:
    """What a size has to be, and what is said where it is not."""
    test, said = f"{size} >= {dim.minimum}", f"{dim.minimum} or more"
    if dim.maximum is not None:
        test, said = f"{test} && {size} <= {dim.maximum}", f"{dim.minimum} to {dim.maximum}"
    return test, f"{size} is \\({size}), and has to be {said}"


def _guard(error: str, test: str, said: str) -> list[str]:
    """What is thrown where a test does not hold; -2 is EDGERT_INVALID_ARGUMENT."""
    return [
        f"        guard {test} else {{",
        f'            throw {error}(status: -2, description: "{said}")',
        "        }",
    ]


def _method(values: Mapping[str, str], function: BoundFunction) -> str:
    inputs, outputs = _names(function)
    sizes = _sizes(function)
    words = [f"{size}: Int" for size in sizes]
    words += [
        f"{name}: [{_element(tensor)}]"
        for tensor, name in zip(function.inputs, inputs, strict=True)
    ]
    results = [
        f"{name}: [{_element(tensor)}]"
        for tensor, name in zip(function.outputs, outputs, strict=True)
    ]
    gives = f"({', '.join(results)})"
    if len(results) == 1:
        gives = results[0].partition(": ")[2]
    lines = ["", f"    /// {function.signature}"]
    lines.append(f"    public func {camel(function.name)}({', '.join(words)}) throws -> {gives} {{")
    error = f"{values['Type']}Error"
    for size, dim in zip(sizes, function.sizes.values(), strict=True):
        lines += _guard(error, *_bounds(size, dim))
    for tensor, name in zip(function.inputs, inputs, strict=True):
        count = _count(tensor)
        said = f"{name} has \\({name}.count) numbers, and \\({count}) are wanted"
        lines += _guard(error, f"{name}.count == {count}", said)
    for tensor, name in zip(function.outputs, outputs, strict=True):
        lines.append(
            f"        var {name}Out = [{_element(tensor)}](repeating: 0, count: {_count(tensor)})"
        )
    lines.append("        var error = edgert_error()")
    given = ["model", *(f"Int64({size})" for size in sizes), *inputs]
    given += [*(f"&{name}Out" for name in outputs), "&error"]
    lines += [
        f"        let status = {values['name']}_{function.name}({', '.join(given)})",
        "        guard status == EDGERT_OK else "
        f"{{ throw {values['Type']}.failure(status, error) }}",
    ]
    taken = ", ".join(f"{name}Out" for name in outputs)
    lines += [f"        return {taken if len(outputs) == 1 else f'({taken})'}", "    }", ""]
    return "\n".join(lines)
