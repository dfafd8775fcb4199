"""The web package: modules, `edgec-runtime`, typed bindings, and a page that runs as it is."""

import base64
import html
import json

from edgec.packaging.bindings import BoundFunction, bind
from edgec.packaging.examples import example_values
from edgec.packaging.names import camel, pascal, unique
from edgec.packaging.plan import BuiltVariant, Plan
from edgec.packaging.selftest import FOLDER, proves_itself
from edgec.packaging.templates import render
from edgec.packaging.web_runtime import write_runtime
from edgec.runtime import DType, Signature, TensorSpec
from edgec.runtime.manifest import SharedFile, Variant

__all__ = ["ARRAYS", "build"]

ARRAYS = {
    DType.BOOL: "Uint8Array",
    DType.I8: "Int8Array",
    DType.I16: "Int16Array",
    DType.I32: "Int32Array",
    DType.I64: "BigInt64Array",
    DType.U8: "Uint8Array",
    DType.U16: "Uint16Array",
    DType.U32: "Uint32Array",
    DType.U64: "BigUint64Array",
    DType.F16: "Uint16Array",
    DType.BF16: "Uint16Array",
    DType.F32: "Float32Array",
    DType.F64: "Float64Array",
    DType.C64: "Float32Array",
    DType.C128: "Float64Array",
}
"""What holds a type's elements in JavaScript."""

_RUNTIME = "edgec-runtime"
_TEXT = """
import { textOf } from './edgec-runtime/text.js';

/** The same as a language model: `for await (const piece of model.chat('…'))`. */
export const loadText = async (options) => textOf(await load(options), options);
"""
_TEXT_TYPES = """
import type { TextModel, TextOptions } from './edgec-runtime/text.js';

/** The same as a language model. */
export function loadText(options?: Omit<TextOptions, 'integrity'>): Promise<TextModel>;
"""
# What a model has of its own in edgec-runtime: functions by these names are reached otherwise.
_OWN = (
    *("functions", "call", "close", "closed", "variant", "device", "passedOver", "threads"),
    *("memory", "attribute", "prove", "then", "constructor"),
)


def build(plan: Plan) -> None:
    """Write the package around the modules."""
    writes = bool(plan.variants[0].compiled.module.text)
    write_runtime(plan.folder / _RUNTIME, text=writes)
    name = plan.name
    functions = bind(plan.signatures.values())
    first = functions[0].signature
    call = f"model.{first.name}({{ {_keys(first.inputs)} }})"
    values = {
        "name": name,
        "title": _comment(plan.title),
        "title_html": html.escape(plan.title),
        "edgec": plan.manifest.edgec,
        "package": json.dumps(name.replace("_", "-")),
        "example": f"const {{ {_keys(first.outputs)} }} = await {call};",
        "call": f"`await {call}`",
        "functions": ", ".join(f"`{f.signature}`" for f in functions),
        "targets": ", ".join(v.target.name for v in plan.variants),
        "variants": "\n".join(_variant(variant, plan) for variant in plan.variants),
        "shared": _shared(plan),
        "text": _TEXT if writes else "",
        "text_types": _TEXT_TYPES if writes else "",
        "examples": _examples(plan, functions),
    }
    types = {
        "functions": "".join(_interfaces(f) for f in _named(functions)),
        "members": "\n".join(_member(f) for f in _named(functions)),
    }
    is_proved = proves_itself(plan)
    if is_proved:
        plan.write(f"{FOLDER}/selftest.mjs", render("web/selftest.mjs", values))
    values["test"] = (
        "\n- `load({ prove: true })` takes the first that computes rightly here; "
        f"`node {FOLDER}/selftest.mjs` says whether they do in node."
        if is_proved
        else ""
    )
    for file, template in (
        (f"{name}.js", "model.js"),
        (f"{name}.d.ts", "model.d.ts"),
        ("package.json", "package.json"),
        ("index.html", "index.html"),
        ("try.js", "try.js"),
        ("README.md", "README.md"),
    ):
        more = types if template == "model.d.ts" else {}
        plan.write(file, render(f"web/{template}", values | more))


def _named(functions: tuple[BoundFunction, ...]) -> list[tuple[str, Signature]]:
    """Each signature with a name for its types."""
    return list(
        zip(
            unique([pascal(f.name) for f in functions]),
            (f.signature for f in functions),
            strict=True,
        )
    )


def _interfaces(named: tuple[str, Signature]) -> str:
    """The types of a function's inputs and outputs."""
    name, signature = named
    inputs = "".join(
        f"  /** {_spec(s)} */\n  readonly {_key(s.name)}: Value<{ARRAYS[s.dtype]}>;\n"
        for s in signature.inputs
    )
    outputs = "".join(
        f"  /** {_spec(s)} */\n  readonly {_key(s.name)}: Tensor<{ARRAYS[s.dtype]}>;\n"
        for s in signature.outputs
    )
    return (
        f"\nexport interface {name}Inputs {{\n{inputs}}}\n"
        f"\nexport interface {name}Outputs extends Iterable<Tensor> {{\n{outputs}}}\n"
        f"\nexport interface {name}Function {{\n"
        f"  (inputs: {name}Inputs): Promise<{name}Outputs>;\n"
        f"  ({_parameters(signature)}): Promise<{name}Outputs>;\n"
        "  readonly inputs: readonly TensorSpec[];\n"
        "  readonly outputs: readonly TensorSpec[];\n}\n"
    )


def _member(named: tuple[str, Signature]) -> str:
    name, signature = named
    if signature.name in _OWN:
        return f"  // model.functions.{signature.name}, since the name is taken here"
    text = f"  /** {_comment(str(signature))} */\n"
    return f"{text}  readonly {_key(signature.name)}: {name}Function;"


def _parameters(signature: Signature) -> str:
    names = unique([camel(s.name) for s in signature.inputs])
    pairs = zip(names, signature.inputs, strict=True)
    return ", ".join(f"{name}: Value<{ARRAYS[s.dtype]}>" for name, s in pairs)


def _variant(variant: BuiltVariant, plan: Plan) -> str:
    entry = variant.entry
    outside = variant.compiled.module.facts.weights is not None
    shares = "    weights,\n" if plan.manifest.weights is not None and outside else ""
    return (
        f"  {{\n    name: {json.dumps(entry.target)},\n"
        f"    device: {json.dumps(entry.needs.device)},\n"
        f"    needs: {json.dumps(list(entry.needs.features))},\n"
        f"{_file(entry, '    ')}{shares}  }},"
    )


def _shared(plan: Plan) -> str:
    """The file of weights that the variants share."""
    shared = plan.manifest.weights
    if shared is None:
        return ""
    return f"/** What the variants share. */\nconst weights = {{\n{_file(shared, '  ')}}};\n\n"


def _file(file: Variant | SharedFile, indent: str) -> str:
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    lines = (
        f"url: new URL({json.dumps('./' + file.file)}, import.meta.url),",
        f"integrity: 'sha256-{digest}',",
        f"size: {file.size},",
    )
    return "".join(f"{indent}{line}\n" for line in lines)


def _examples(plan: Plan, functions: tuple[BoundFunction, ...]) -> str:
    """Inputs of golden answers, for the types that a page writes as plain numbers."""
    found = {
        function.signature.name: {
            tensor.spec.name: [float(n) if tensor.dtype.is_float else int(n) for n in numbers]
            for tensor, numbers in zip(function.inputs, example_values(plan, function), strict=True)
            if numbers is not None and tensor.dtype not in (DType.F16, DType.BF16)
        }
        for function in functions
    }
    return json.dumps(found).replace("</", "<\\/")


def _key(name: str) -> str:
    """A name as a property of an object: quoted where it must be."""
    return name if name.isidentifier() and name.isascii() else json.dumps(name)


def _keys(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(_key(spec.name) for spec in specs)


def _spec(spec: TensorSpec) -> str:
    return _comment(str(spec).removeprefix(f"{spec.name}: "))


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")
