"""Typed bindings of a model in Java, and what Kotlin adds to them."""

from collections.abc import Sequence

from edgec.packaging.bindings import BoundFunction, BoundTensor
from edgec.packaging.names import camel, pascal, unique
from edgec.packaging.templates import render
from edgec.runtime import DType

__all__ = ["JAVA_TYPES", "java_binding", "kotlin_binding", "kotlin_example"]

JAVA_TYPES = {
    8: ("byte", "bytes"),
    16: ("short", "shorts"),
    32: ("int", "ints"),
    64: ("long", "longs"),
}
"""Bits of an integer to Java's type and the method of EdgeTensor that copies it out."""

_FLOATS = {
    DType.F16: ("short", "shorts"),
    DType.BF16: ("short", "shorts"),
    DType.F32: ("float", "floats"),
    DType.F64: ("double", "doubles"),
    DType.C64: ("float", "floats"),
    DType.C128: ("double", "doubles"),
}


def java_binding(values: dict[str, str], functions: Sequence[BoundFunction]) -> str:
    """The class: a method a function, which takes and gives arrays."""
    methods = "".join(_method(function, name) for function, name in _named(functions))
    return render("android/Model.java", values | {"methods": methods})


def kotlin_binding(values: dict[str, str], functions: Sequence[BoundFunction]) -> str:
    """What Kotlin adds: opening from a Context, and `val (a, b) = model.main(x)`."""
    lines = []
    for function, name in _named(functions):
        outputs = _names(function)[1]
        if len(outputs) < 2:
            continue
        kind = f"{values['Type']}.{_result(name)}"
        lines.append("")
        for index, (tensor, field) in enumerate(zip(function.outputs, outputs, strict=True), 1):
            java = "EdgeTensor" if not tensor.known else f"{_kotlin_array(tensor)}"
            lines.append(f"operator fun {kind}.component{index}(): {java} = {field}")
    text = "\n".join(lines)
    tensors = "import dev.edgec.EdgeTensor\n" if "EdgeTensor" in text else ""
    return render("android/Model.kt", values | {"components": text, "tensors": tensors})


def kotlin_example(function: BoundFunction) -> str:
    """A call as a README shows it: `val (label, scores) = model.main(images)`."""
    ((_, name),) = _named([function])
    inputs, outputs = _names(function)
    result = f"({', '.join(outputs)})" if len(outputs) > 1 else (outputs or ["done"])[0]
    words = [*(camel(size) for size in function.sizes), *inputs]
    return f"val {result} = model.{name}({', '.join(words)})"


def _named(functions: Sequence[BoundFunction]) -> list[tuple[BoundFunction, str]]:
    taken = ["module", "close", "load"]
    names = unique([*taken, *(camel(function.name) for function in functions)])
    return list(zip(functions, names[len(taken) :], strict=True))


def _names(function: BoundFunction) -> tuple[list[str], list[str]]:
    """The inputs and outputs in camel case; inputs apart from the sizes."""
    sizes = [camel(size) for size in function.sizes]
    inputs = unique([*sizes, *(camel(tensor.name) for tensor in function.inputs)])[len(sizes) :]
    return inputs, unique([camel(tensor.name) for tensor in function.outputs])


def _result(name: str) -> str:
    return f"{pascal(name)}Result"


def _array(tensor: BoundTensor) -> tuple[str, str]:
    return _FLOATS.get(tensor.dtype) or JAVA_TYPES[tensor.dtype.bits]


def _kotlin_array(tensor: BoundTensor) -> str:
    return f"{_array(tensor)[0].capitalize()}Array"


def _method(function: BoundFunction, name: str) -> str:
    inputs, outputs = _names(function)
    sizes = [camel(size) for size in function.sizes]
    words = [f"long {size}" for size in sizes]
    words += [
        f"{_array(tensor)[0]}[] {given}"
        for tensor, given in zip(function.inputs, inputs, strict=True)
    ]
    result, single = "void", len(function.outputs) == 1
    if single:
        result = _taken(function.outputs[0])[0]
    elif function.outputs:
        result = _result(name)
    lines = ["", f"  /** {str(function.signature).replace('*/', '')} */"]
    lines.append(f"  public {result} {name}({', '.join(words)}) {{")
    native = function.signature.name
    lines.append(f"    EdgeTensor[] given = new EdgeTensor[{len(inputs)}];")
    lines.append("    EdgeTensor[] taken = {};")
    lines.append("    try {")
    for index, (tensor, given) in enumerate(zip(function.inputs, inputs, strict=True)):
        own = [camel(size) for size in tensor.shape if isinstance(size, str)]
        arguments = ", ".join([f'"{native}"', str(index), *own])
        lines.append(f"      given[{index}] = module.input({arguments});")
        lines.append(f"      given[{index}].set({given});")
    lines.append(f'      taken = module.call("{native}", given);')
    kept = [
        f"taken[{i}]" if not tensor.known else f"taken[{i}].{_taken(tensor)[1]}()"
        for i, tensor in enumerate(function.outputs)
    ]
    for index, tensor in enumerate(function.outputs):
        if not tensor.known:
            lines.append(f"      EdgeTensor kept{index} = taken[{index}];")
            lines.append(f"      taken[{index}] = null;")
            kept[index] = f"kept{index}"
    if single:
        lines.append(f"      return {kept[0]};")
    elif function.outputs:
        lines.append(f"      return new {result}({', '.join(kept)});")
    lines += [
        "    } finally {",
        "      for (EdgeTensor tensor : given) if (tensor != null) tensor.close();",
        "      for (EdgeTensor tensor : taken) if (tensor != null) tensor.close();",
        "    }",
        "  }",
    ]
    if len(function.outputs) > 1:
        lines += _result_class(function, result, outputs)
    return "\n".join(lines) + "\n"


def _taken(tensor: BoundTensor) -> tuple[str, str]:
    """What a result is in Java, and the method that copies it out; tensors are the caller's."""
    if not tensor.known:
        return "EdgeTensor", ""
    element, copy = _array(tensor)
    return f"{element}[]", copy


def _result_class(function: BoundFunction, result: str, outputs: Sequence[str]) -> list[str]:
    fields = [
        (_taken(tensor)[0], field, tensor)
        for tensor, field in zip(function.outputs, outputs, strict=True)
    ]
    lines = ["", f"  /** What {function.signature.name} gives. */"]
    lines.append(f"  public static final class {result} {{")
    for kind, field, tensor in fields:
        owner = "" if tensor.known else "; the caller closes it"
        lines += [f"    /** {tensor.spec}{owner}. */", f"    public final {kind} {field};"]
    words = ", ".join(f"{kind} {field}" for kind, field, _ in fields)
    lines += ["", f"    {result}({words}) {{"]
    lines += [f"      this.{field} = {field};" for _, field, _ in fields]
    return [*lines, "    }", "  }"]
