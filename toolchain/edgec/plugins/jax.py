"""JAX on edgec's devices: registers the PJRT plugin where `JAX_PLATFORMS` asks for it.

JAX finds this module by its entry point and calls `initialize`, in every process that uses JAX: so
nothing is imported here before it is needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.runtime import Module

__all__ = ["PLATFORM", "compiled", "initialize"]

PLATFORM = "edgec"


def initialize() -> None:
    """Register the plugin, where it is asked for; JAX calls this.

    What fails here is said when JAX opens the platform: an exception now would only be logged.
    """
    import jax
    from jax._src import xla_bridge

    asked = str(jax.config.jax_platforms or "").split(",")
    if PLATFORM in asked and PLATFORM not in xla_bridge._backend_factories:
        from edgec.plugins.pjrt.platform import register

        register(PLATFORM)


def compiled(jitted: Any, *args: Any, output: Path | str, **kwargs: Any) -> "Module":
    """The module that edgec's platform runs for a call of a jitted function, as a file of its own.

    Its function `main` takes the arrays among the arguments, one after the other, and gives those
    among the results.

    Args:
        jitted: what `jax.jit` gave.
        args: the call's arguments, or `jax.ShapeDtypeStruct`s in their place.
        output: where the module goes.
        kwargs: the call's, likewise.

    Raises:
        UsageError: the call is not edgec's.
        FileError: the module cannot be written, or edgec's cache keeps none.
    """
    from edgec.plugins.pjrt.store import Store
    from edgec.runtime import Module
    from edgec.runtime.errors import UsageError
    from edgec.runtime.files import write_atomically

    executable = jitted.lower(*args, **kwargs).compile().runtime_executable()
    platform = executable.local_devices()[0].platform
    if platform != PLATFORM:
        raise UsageError(
            f"the call is compiled for {platform}", hint=f"start with JAX_PLATFORMS={PLATFORM}"
        )
    count = len(executable.local_devices())
    if count > 1:
        raise UsageError(
            f"the call runs on {count} devices, and a module on one",
            hint="edgec compile MODEL --mesh=x=2 writes a program for several devices",
        )
    made = Store().kept(executable.fingerprint.decode())
    if made.spread is not None:
        raise UsageError(
            "the call is several functions of its module, with something in between that JAX's "
            "platform does: Python that it calls, or what devices say to each other",
            hint="leave callbacks (jax.debug.print and its like) and shard_map out",
        )
    with write_atomically(Path(output)) as stream:
        stream.write(made.path.read_bytes())
    return Module.read(Path(output))
