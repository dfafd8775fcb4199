"""The C package: edgert in two files, the modules embedded, a typed header, a main, CMake."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgec.packaging.bindings import BoundFunction, BoundTensor, bind
from edgec.packaging.c_types import C_TYPES
from edgec.packaging.edgert_sources import write_edgert
from edgec.packaging.examples import example_values
from edgec.packaging.linked import own_symbol
from edgec.packaging.plan import BuiltVariant, Plan
from edgec.packaging.selftest import proves_itself, write_c_self_test
from edgec.packaging.templates import render
from edgec.runtime import Dim, DType

__all__ = [
    "ISA_MACROS",
    "bind_c",
    "build",
    "c_values",
    "code",
    "declaration",
    "header",
    "text_values",
    "weights_code",
]

ISA_MACROS = {
    "x86_64": "defined(__x86_64__)",
    "arm_64": "defined(__aarch64__)",
    "arm_32": "defined(__arm__)",
    "riscv_64": "defined(__riscv) && __riscv_xlen == 64",
}
"""An instruction set to how the C preprocessor knows it."""

# The same as CMake knows it.
_PROCESSORS = {
    "x86_64": "^(x86_64|AMD64|amd64)$",
    "arm_64": "^(aarch64|arm64|ARM64)$",
    "arm_32": "^arm(v7.*)?$",
    "riscv_64": "^riscv64$",
}
_SELF_TEST = """\
  enable_testing()
  add_executable({name}_selftest selftest/selftest.c)
  target_link_libraries({name}_selftest PRIVATE {name})
  add_test(NAME {name}_selftest COMMAND {name}_selftest
    WORKING_DIRECTORY ${{CMAKE_CURRENT_SOURCE_DIR}})
"""
_TAKEN = (
    *("open", "open_file", "open_proved", "open_signed", "prove"),
    *("close", "variant", "size", "text"),
)
_NO_TEXT = dict.fromkeys(("text_include", "text_declaration", "text_definition", "text_source"), "")


def build(plan: Plan) -> None:
    """Write the package around the modules."""
    name = plan.name
    functions = bind_c(plan)
    symbols = {v.target.name: own_symbol(v.library, name) for v in plan.variants if v.library}
    values = c_values(plan, functions) | {
        "folder": plan.destination.name,
        "declarations": _declarations(plan, symbols),
        "variants": _variants(plan, symbols),
        "modules_note": "those in modules/",
        "opening": f"{name}_open(NULL",
    }
    values["weights"] = weights_code(plan, "embedded")
    writes = bool(plan.variants[0].compiled.module.text)
    if writes:
        values |= text_values(values)
    write_edgert(plan.folder / "edgert", text=writes)
    opens = {place: render(f"c/open.{place}", values) for place in ("h", "c")}
    plan.write(f"{name}.h", header(functions, values | {"open": opens["h"]}))
    plan.write(f"{name}.c", code(functions, values | {"open": opens["c"]}))
    plan.write(
        f"{name}_modules.S",
        render("c/modules.S", values | {"modules": "modules/", "modules_in": _embedded(plan)}),
    )
    main = render("c/chat.c", values) if writes else _main(plan, functions[0], values)
    plan.write("main.c", main)
    is_proved = proves_itself(plan)
    if is_proved:
        write_c_self_test(plan, opening=f"{name}_open(NULL, &model, &error)")
    test = _SELF_TEST.format(name=name) if is_proved else ""
    plan.write("CMakeLists.txt", render("c/CMakeLists.txt", values | _cmake(plan) | {"test": test}))
    words = {
        "functions": ", ".join(f"`{name}_{f.name}`" for f in functions),
        "code": "The kernels are linked in: no code is loaded at run time."
        if symbols
        else "The modules are embedded; their machine code is loaded at run time.",
        "test": f"\n- `{name}_open_proved` takes the first that computes rightly on this machine; "
        f"`build/{name}_selftest` (`ctest --test-dir build`) says whether one does."
        if is_proved
        else "",
    }
    plan.write("README.md", render("c/README.md", values | words))


def bind_c(plan: Plan) -> tuple[BoundFunction, ...]:
    """The model's functions, with names that C takes behind the model's own."""
    return bind(plan.signatures.values(), _TAKEN)


def c_values(plan: Plan, functions: Sequence[BoundFunction]) -> dict[str, str]:
    """What the templates of the typed header and its code need, but for the variants."""
    stateful = bool(plan.variants[0].compiled.module.facts.states)
    return {
        "name": plan.name,
        "NAME": plan.name.upper(),
        "title": plan.title.replace("*/", "* /"),
        "edgec": plan.manifest.edgec,
        "targets": ", ".join(v.target.name for v in plan.variants),
        "function_count": str(len(functions)),
        "function_names": ", ".join(f'"{f.signature.name}"' for f in functions),
        "most_inputs": str(max(1, *(len(f.inputs) for f in functions))),
        "most_outputs": str(max(1, *(len(f.outputs) for f in functions))),
        "share": "0" if stateful else "1",
        "stateless_note": " (never: functions may keep it)" if stateful else "",
        **_NO_TEXT,
    }


def text_values(values: Mapping[str, str]) -> dict[str, str]:
    """What the templates need beside `c_values` where the model is a language model."""
    return {
        "text_include": '#include "edgert_text.h"\n',
        "text_declaration": render("c/text.h", values),
        "text_definition": render("c/text.c", values),
        "text_source": " edgert/edgert_text.c",
    }


def weights_code(plan: Plan, place: str) -> str:
    """How the code opens the weights that variants share: `embedded` in the program or `beside`."""
    shared = plan.manifest.weights
    values = {"name": plan.name, "weights_file": Path(shared.file).name if shared else ""}
    return render(f"c/weights.{place if shared else 'none'}", values)


def header(functions: Sequence[BoundFunction], values: Mapping[str, str]) -> str:
    """The typed header."""
    name = values["name"]
    text = "\n".join(f"/* {_comment(f)} */\n{declaration(name, f)};\n" for f in functions)
    return render("c/model.h", {**values, "functions": text})


def code(functions: Sequence[BoundFunction], values: Mapping[str, str]) -> str:
    """What the header declares."""
    text = "".join(_definition(values["name"], i, f) for i, f in enumerate(functions))
    return render("c/model.c", {**values, "functions": text})


def declaration(name: str, function: BoundFunction) -> str:
    """The C function without its final semicolon."""
    words = [f"{name} *model", *(f"int64_t {size}" for size in function.sizes)]
    words += [f"const {_array(tensor)}" for tensor in function.inputs]
    words += [
        _array(tensor) if tensor.known else f"edgert_tensor **{tensor.name}"
        for tensor in function.outputs
    ]
    words.append("edgert_error *error")
    head = f"EDGERT_MUST_USE edgert_status {name}_{function.name}("
    line = f"{head}{', '.join(words)})"
    return line if len(line) <= 100 else f"{head}\n    " + ",\n    ".join(words) + ")"


def _array(tensor: BoundTensor) -> str:
    kind = C_TYPES[tensor.dtype]
    if not tensor.is_static:
        return f"{kind.name} *{tensor.name}"
    size = tensor.product() + (f" * {kind.parts}" if kind.parts > 1 else "")
    # A C array may not have size 0, and is a pointer here anyhow.
    if tensor.elements == 0:
        return f"{kind.name} *{tensor.name}"
    return f"{kind.name} {tensor.name}[{size}]"


def _comment(function: BoundFunction) -> str:
    """The signature as people read it; results of unknown size are the caller's to release."""
    text = str(function.signature).replace("*/", "* /")
    given = [tensor.name for tensor in function.outputs if not tensor.known]
    if given:
        text += f"\n * The caller releases {', '.join(given)} (edgert_tensor_release)."
    return text


def _definition(name: str, index: int, function: BoundFunction) -> str:
    lines = ["", declaration(name, function).removeprefix("EDGERT_MUST_USE ") + " {"]
    lines += [f"  *{tensor.name} = NULL;" for tensor in function.outputs if not tensor.known]
    for size, dim in function.sizes.items():
        lines += _bounds(size, dim)
    for side, tensors in (("inputs", function.inputs), ("outputs", function.outputs)):
        if tensors:
            lines.append(f"  const slot {side}[] = {{")
            lines += [f"      {_slot(tensor)}," for tensor in tensors]
            lines.append("  };")
    given = f"inputs, {len(function.inputs)}" if function.inputs else "NULL, 0"
    taken = f"outputs, {len(function.outputs)}" if function.outputs else "NULL, 0"
    lines += [f"  return call(model, {index}, {given}, {taken}, error);", "}", ""]
    return "\n".join(lines)


def _bounds(size: str, dim: Dim) -> list[str]:
    test = f"{size} < {dim.minimum}"
    said = f"{dim.minimum} or more"
    if dim.maximum is not None:
        test += f" || {size} > {dim.maximum}"
        said = f"{dim.minimum} to {dim.maximum}"
    return [
        f"  if ({test})",
        f'    return fail(error, EDGERT_INVALID_ARGUMENT, "{size} is %lld, and has to be {said}",',
        f"                (long long){size});",
    ]


def _slot(tensor: BoundTensor) -> str:
    kind = C_TYPES[tensor.dtype]
    size = tensor.dtype.bits // 8
    shape = ", ".join(map(str, tensor.shape)) or "0"
    if not tensor.known:
        return f'{{"{tensor.name}", 0, 0, 0, {{0}}, NULL, {tensor.name}}}'
    return (
        f'{{"{tensor.name}", {kind.edgert}, {size}, {len(tensor.shape)}, {{{shape}}}, '
        f"(void *){tensor.name}, NULL}}"
    )


def _declarations(plan: Plan, symbols: dict[str, str]) -> str:
    lines = []
    for index, variant in enumerate(plan.variants):
        symbol = _symbol(plan, index)
        lines += [
            f"#if {_condition(variant)}",
            f"extern const unsigned char {symbol}_begin[], {symbol}_end[];",
        ]
        query = symbols.get(variant.target.name)
        if query:
            lines.append(f"extern const void *{query}(uint32_t, const void *);")
        lines.append("#endif")
    return "\n".join(lines) + "\n"


def _condition(variant: BuiltVariant) -> str:
    """Where the C preprocessor lets a variant in: one for GPUs everywhere."""
    isa = variant.entry.needs.isa
    return ISA_MACROS[isa] if isa else "1"


def _driver(variant: BuiltVariant) -> str:
    return variant.entry.needs.device


def _variants(plan: Plan, symbols: dict[str, str]) -> str:
    lines = []
    for index, variant in enumerate(plan.variants):
        symbol, name = _symbol(plan, index), variant.target.name
        query = symbols.get(name, "NULL")
        lines += [
            f"#if {_condition(variant)}",
            f'    {{"{name}", "{_driver(variant)}", {symbol}_begin, {symbol}_end, {query}}},',
            "#endif",
        ]
    return "\n".join(lines) + "\n"


def _embedded(plan: Plan) -> str:
    lines = []
    for index, variant in enumerate(plan.variants):
        lines.append(f"#if {_condition(variant)}")
        lines += _bytes(_symbol(plan, index), variant.entry.file)
        lines.append("#endif")
    if plan.manifest.weights is not None:
        lines += _bytes(f"{plan.name}_weights", plan.manifest.weights.file)
    return "\n".join(lines) + "\n"


def _bytes(symbol: str, file: str) -> list[str]:
    return [
        "  .p2align 6",
        f"  .globl SYMBOL({symbol}_begin)",
        f"SYMBOL({symbol}_begin):",
        f'  .incbin "{file}"',
        f"  .globl SYMBOL({symbol}_end)",
        f"SYMBOL({symbol}_end):",
        "  .byte 0",
    ]


def _symbol(plan: Plan, index: int) -> str:
    return f"{plan.name}_module_{index}"


def _cmake(plan: Plan) -> dict[str, str]:
    definitions = ""
    if any(variant.library for variant in plan.variants):
        definitions = f"target_compile_definitions({plan.name} PRIVATE EDGERT_WITH_ELF=0)\n"
    if plan.has_gpus:
        definitions += (
            f"target_compile_definitions({plan.name} PRIVATE EDGERT_WITH_VULKAN=1)\n"
            f"target_link_libraries({plan.name} PUBLIC ${{CMAKE_DL_LIBS}})\n"
        )
    for variant in plan.variants:
        if variant.library:
            kernels = variant.entry.file.removesuffix(".vmfb") + ".o"
            definitions += (
                f'if(CMAKE_SYSTEM_PROCESSOR MATCHES "{_PROCESSORS[variant.entry.needs.isa]}")\n'
                f"  target_link_libraries({plan.name} PUBLIC "
                f"${{CMAKE_CURRENT_SOURCE_DIR}}/{kernels})\n"
                "endif()\n"
            )
    shared = plan.manifest.weights
    files = [variant.entry.file for variant in plan.variants]
    files += [shared.file] if shared is not None else []
    depends = "\n".join(f"  ${{CMAKE_CURRENT_SOURCE_DIR}}/{file}" for file in files)
    return {"definitions": definitions, "depends": depends}


def _main(plan: Plan, function: BoundFunction, values: dict[str, str]) -> str:
    arrays, fills, reads, tensors, prints = [], [], [], [], []
    words = ["model", *(str(max(1, dim.minimum)) for dim in function.sizes.values())]
    example = example_values(plan, function)
    for index, (tensor, numbers) in enumerate(zip(function.inputs, example, strict=True)):
        kind = C_TYPES[tensor.dtype]
        count = max(1, tensor.elements * kind.parts)
        head = f"static {kind.name} {tensor.name}_example[{count}]"
        if numbers is None:
            arrays.append(f"{head};")
            fills.append(
                f"for (size_t i = 0; i < {count}; ++i) "
                f"{tensor.name}_example[i] = ({kind.name})({_ramp(tensor.dtype)});"
            )
        else:
            arrays.append(f"{head} = {{\n    {_wrapped(numbers)}}};")
        reads.append(
            f"  if (count > {index + 1} && !read_file(files[{index + 1}], {tensor.name}_example, "
            f"sizeof {tensor.name}_example)) return 1;\n"
        )
        words.append(f"{tensor.name}_example")
    for tensor in function.outputs:
        kind = C_TYPES[tensor.dtype]
        if not tensor.known:
            tensors.append(f"  edgert_tensor *{tensor.name}_result = NULL;\n")
            words.append(f"&{tensor.name}_result")
            prints.append(
                f'  printf("{tensor.name}: %llu bytes\\n", '
                f"(unsigned long long)edgert_tensor_size({tensor.name}_result));\n"
                f"  edgert_tensor_release({tensor.name}_result);\n"
            )
            continue
        count = max(1, tensor.elements * kind.parts)
        arrays.append(f"static {kind.name} {tensor.name}_result[{count}];")
        words.append(f"{tensor.name}_result")
        form, cast = _printed(tensor.dtype)
        prints.append(
            f'  printf("{tensor.name}:");\n'
            f"  for (size_t i = 0; i < {min(count, 16)}; ++i) "
            f'printf(" {form}", ({cast}){tensor.name}_result[i]);\n'
            f'  puts("{"" if count <= 16 else " ..."}");\n'
        )
    words.append("&error")
    return render(
        "c/main.c",
        values
        | {
            "function": f"{plan.name}_{function.name}",
            "inputs_note": "".join(f"\n * {t.spec}" for t in function.inputs) or " none",
            "arrays": "\n".join(arrays) + "\n",
            "fill": "\n  ".join(fills) or "(void)0;",
            "reads": "".join(reads) or "  (void)count;\n  (void)files;\n  (void)read_file;\n",
            "tensors": "".join(tensors),
            "call": f"{plan.name}_{function.name}({', '.join(words)})",
            "prints": "".join(prints),
        },
    )


def _ramp(dtype: DType) -> str:
    return "(double)(i % 7) / 7" if dtype.is_float and dtype.bits > 16 else "i % 2"


def _printed(dtype: DType) -> tuple[str, str]:
    """How printf shows an element, and what it is cast to; 16-bit floats as their bits."""
    if dtype in (DType.F16, DType.BF16):
        return "0x%04x", "unsigned"
    if dtype.is_float:
        return ("%.9g" if dtype in (DType.F32, DType.C64) else "%.17g"), "double"
    return ("%llu", "unsigned long long") if dtype.value[0] in "ub" else ("%lld", "long long")


def _wrapped(numbers: list[str]) -> str:
    """Numbers in lines of at most 100 columns."""
    lines, line = [], ""
    for number in numbers:
        if len(line) + len(number) > 92:
            lines.append(line.rstrip())
            line = ""
        line += f"{number}, "
    return "\n    ".join([*lines, line.rstrip(", ")])
