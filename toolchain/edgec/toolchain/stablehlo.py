"""MLIR bytes to a module in the StableHLO dialect, through the compiler's own bindings.

iree.compiler reads portable artifacts (VHLO) but registers no pass that turns them into StableHLO;
only its input pipeline does, and goes on to linalg. So a function that cannot verify as StableHLO
is planted first: the pipeline stops right after the conversion, with the whole module converted,
and the planted function is taken out again. Nothing is printed or copied, however big the weights
(36 MB: 11 ms).
"""

from typing import Any

from edgec.runtime.errors import ProgramError
from edgec.toolchain.bindings import remember_missing_dialects

__all__ = ["parse_stablehlo"]

_PLANTED = "__edgec_stop_here"
_PLANT = f"""
"vhlo.func_v1"() <{{arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>,
  function_type = #vhlo.type_v1<!vhlo.func_v1<
    (!vhlo.tensor_v1<!vhlo.f32_v1>) -> !vhlo.tensor_v1<!vhlo.i32_v1>>>,
  sym_name = #vhlo.string_v1<"{_PLANTED}">, sym_visibility = #vhlo.string_v1<"private">}}> ({{
^bb0(%a: !vhlo.tensor_v1<!vhlo.f32_v1>):
  %0 = "vhlo.add_v1"(%a, %a) : (!vhlo.tensor_v1<!vhlo.f32_v1>, !vhlo.tensor_v1<!vhlo.f32_v1>)
    -> !vhlo.tensor_v1<!vhlo.i32_v1>
  "vhlo.return_v1"(%0) : (!vhlo.tensor_v1<!vhlo.i32_v1>) -> ()
}}) : () -> ()
"""


def parse_stablehlo(data: bytes | str, context: Any) -> Any:
    """Parse MLIR text or bytecode into `context`; VHLO becomes StableHLO, the rest stays.

    Args:
        data: MLIR text, bytecode, or a portable StableHLO artifact of version 0.9 or later.
        context: an `iree.compiler.ir.Context`.

    Returns:
        The `iree.compiler.ir.Module`.

    Raises:
        ProgramError: the data is no MLIR, or from a newer StableHLO than the compiler knows.
    """
    from iree.compiler import ir, passmanager

    remember_missing_dialects()
    messages: list[str] = []

    def keep(diagnostic: Any) -> bool:
        messages.append(str(diagnostic))
        return True

    with context, ir.Location.unknown():
        handler = context.attach_diagnostic_handler(keep)
        try:
            module = ir.Module.parse(data)
            if not list(module.body.operations):
                raise ProgramError(
                    "the program is empty", hint="export the model with `edgec export`"
                )
            if not any(op.operation.name == "vhlo.func_v1" for op in module.body.operations):
                return module
            plant = ir.Module.parse(_PLANT)  # named: its operations die with it
            plant.body.operations[0].operation.clone(
                ip=ir.InsertionPoint.at_block_begin(module.body)
            )
            pipeline = "builtin.module(iree-stablehlo-input-transformation-pipeline)"
            try:
                passmanager.PassManager.parse(pipeline).run(module.operation)
            except ir.MLIRError as stopped:
                messages.append(str(stopped))
            else:
                raise ProgramError("the compiler did not stop at StableHLO")
        except ir.MLIRError as error:
            raise ProgramError(
                f"this is no MLIR that the compiler can read: {_first_line(str(error))}",
                hint="give StableHLO text or bytecode, or export the model with `edgec export`",
            ) from error
        finally:
            handler.detach()
        names = [op.operation.name for op in module.body.operations]
        planted = [
            op
            for op in module.body.operations
            if ir.StringAttr(op.operation.attributes["sym_name"]).value == _PLANTED
        ]
        if "vhlo.func_v1" in names or len(planted) != 1:
            raise ProgramError(
                f"the program cannot be read back as StableHLO: {_first_line(messages[-1])}",
                hint="export the model again; it may come from a newer StableHLO",
            )
        planted[0].operation.erase()
        return module


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")
