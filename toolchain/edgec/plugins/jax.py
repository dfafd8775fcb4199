"""JAX on edgec's devices: registers the PJRT plugin where `JAX_PLATFORMS` asks for it.

JAX finds this module by its entry point and calls `initialize`. The plugin itself is C
(`runtime/pjrt`): it holds buffers, calls modules by edgert, and has programs compiled by a process
of its own (`edgec.plugins.pjrt.server`).
"""

import os
import sys
from pathlib import Path
from typing import Any

from edgec.plugins.pjrt.store import Store
from edgec.runtime import Module
from edgec.runtime.errors import EdgecError, UsageError
from edgec.runtime.files import write_atomically

__all__ = ["DEVICES_VARIABLE", "PLATFORM", "REFUSED_VARIABLE", "compiled", "initialize"]

PLATFORM = "edgec"
DEVICES_VARIABLE = "EDGEC_JAX_DEVICES"
"""Drivers of edgert's with commas between, in the order in which JAX counts its devices."""
_DRIVERS = ("cpu", "vulkan")
REFUSED_VARIABLE = "EDGEC_JAX_REFUSED"
"""What becomes of a program that edgec refuses: `error`, or `xla`, whose CPU then runs it."""
_REFUSED = ("error", "xla")


def initialize() -> None:
    """Register the plugin, where it is asked for; JAX calls this.

    What fails here is said when JAX opens the platform: an exception now would only be logged.
    """
    import jax
    from jax._src import xla_bridge

    asked = str(jax.config.jax_platforms or "").split(",")
    if PLATFORM not in asked or PLATFORM in xla_bridge._backend_factories:
        return
    try:
        _register()
    except EdgecError as error:
        _fail_later(error)


def compiled(jitted: Any, *args: Any, output: Path | str, **kwargs: Any) -> Module:
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
    executable = jitted.lower(*args, **kwargs).compile().runtime_executable()
    platform = executable.local_devices()[0].platform
    if platform != PLATFORM:
        raise UsageError(
            f"the call is compiled for {platform}", hint=f"start with JAX_PLATFORMS={PLATFORM}"
        )
    made = Store().kept(executable.fingerprint.decode())
    with write_atomically(Path(output)) as stream:
        stream.write(made.path.read_bytes())
    return Module.read(Path(output))


def _register() -> None:
    """Build or find the plugin's library, and give it to JAX.

    Raises:
        EdgecError: it is not there, or is told nonsense.
    """
    from jax._src import xla_bridge

    from edgec.runtime.pjrt_library import find_plugin

    options = _options()
    xla_bridge.register_plugin(PLATFORM, library_path=str(find_plugin()), options=options)
    _lower_as_edgec_does()


def _options() -> dict[str, str]:
    """What the plugin is told.

    Raises:
        UsageError: a device that there is not, or another word for what is refused.
    """
    devices = os.environ.get(DEVICES_VARIABLE, "cpu")
    unknown = [name for name in devices.split(",") if name not in _DRIVERS]
    if unknown:
        raise UsageError(
            f"{DEVICES_VARIABLE}={devices} names the device {unknown[0]!r}",
            hint=f"it takes {', '.join(_DRIVERS)}, with commas between",
        )
    refused = os.environ.get(REFUSED_VARIABLE, "error")
    if refused not in _REFUSED:
        raise UsageError(
            f"{REFUSED_VARIABLE}={refused} says nothing", hint=f"it is {' or '.join(_REFUSED)}"
        )
    return {
        "devices": devices,
        "refused": refused,
        "compiler": "\n".join((sys.executable, "-m", "edgec.plugins.pjrt.server")),
    }


def _lower_as_edgec_does() -> None:
    """Write linear algebra as operations, where JAX would call what only XLA or LAPACK has."""
    import jax
    from jax._src import source_info_util
    from jax._src.interpreters import mlir

    from edgec.exporters.from_jax.rules import lowering_rules

    for primitive, rule in lowering_rules():
        mlir.register_lowering(primitive, rule, platform=PLATFORM)
    mlir._platforms_with_donation.append(PLATFORM)
    # Shardings as calls that are easily taken out, and not in Shardy's own dialect.
    jax.config.update("jax_use_shardy_partitioner", False)
    source_info_util.register_exclusion(str(Path(__file__).parents[1]))


def _fail_later(error: EdgecError) -> None:
    """Register a platform that raises this error when it is opened."""
    from jax._src import xla_bridge

    def refuse() -> Any:
        raise error

    xla_bridge.register_backend_factory(PLATFORM, refuse, priority=-1, fail_quietly=False)
