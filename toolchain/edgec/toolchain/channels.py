"""A laid out program with collectives: one channel for all of them, which the runtime opens.

The compiler makes a channel in each call, of whoever the device's driver knows of, and IREE's
knows nobody without MPI. So every collective takes the channel from a variable, and a function
puts it there: `edgec_join(id, rank, count)`, called once when the module is loaded. `edgec_leave()`
closes it.
"""

from pathlib import Path

from edgec.runtime.files import write_atomically
from edgec.runtime.mesh.joined import JOIN, LEAVE
from edgec.toolchain.folded import bodies, parse

__all__ = ["open_channels"]

_MADE = "stream.channel.create"
_VARIABLE = "__edgec_channel"
_NOBODY = "__edgec_no_channel"
_OPENED = f"""
util.global private mutable @{_VARIABLE} : !stream.channel
util.global private mutable @{_NOBODY} : !stream.channel
util.func public @{JOIN}(%id: !util.buffer, %rank: index, %count: index) {{
  %made = {_MADE} on(#hal.device.affinity<@__device_0>) id(%id) rank(%rank) count(%count)
    : !stream.channel
  util.global.store %made, @{_VARIABLE} : !stream.channel
  util.return
}}
util.func public @{LEAVE}() {{
  %none = util.global.load @{_NOBODY} : !stream.channel
  util.global.store %none, @{_VARIABLE} : !stream.channel
  util.return
}}
"""


def open_channels(source: Path, output: Path) -> int:
    """Let the collectives of a program take the channel that the runtime opens.

    Args:
        source: the program as the compiler has laid it out in memory.
        output: the same for what the compiler does next.

    Returns:
        In how many places a channel was made before.

    Raises:
        FileError: a file cannot be read or written.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import global_values

    module = parse(source)
    with module.context, ir.Location.name("edgec.channels"):
        made = [operation for operation in bodies(module) if operation.name == _MADE]
        for operation in made:
            with ir.InsertionPoint(operation):
                loaded = global_values.load(_VARIABLE, operation.results[0].type)
            operation.results[0].replace_all_uses_with(loaded)
            operation.erase()
        opened = ir.Module.parse(_OPENED)
        for each in opened.body.operations:
            each.operation.clone(ip=ir.InsertionPoint(module.body))
        module.operation.verify()
        with write_atomically(output) as stream:
            module.operation.write_bytecode(stream)
    return len(made)
