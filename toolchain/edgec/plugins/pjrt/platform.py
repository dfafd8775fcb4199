"""JAX's platform: what the plugin is told, and what JAX is told of it.

The plugin itself is C (`runtime/pjrt`): it holds buffers, calls modules by edgert, and has programs
compiled by a process of its own (`edgec.plugins.pjrt.server`).
"""

import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from edgec.runtime.errors import EdgecError, MissingExtra, UsageError
from edgec.runtime.mesh.nccl import nccl_files

__all__ = ["DEVICES_VARIABLE", "REFUSED_VARIABLE", "register"]

DEVICES_VARIABLE = "EDGEC_JAX_DEVICES"
"""Drivers of edgert's with commas between, in the order in which JAX counts its devices."""
_DRIVERS = ("cpu", "vulkan", "cuda")
_DEVICE = re.compile(rf"({'|'.join(_DRIVERS)})(:\d{{1,4}})?")
REFUSED_VARIABLE = "EDGEC_JAX_REFUSED"
"""What becomes of a program that edgec refuses: `error`, or `xla`, whose CPU then runs it."""
_REFUSED = ("error", "xla")


def register(platform: str) -> None:
    """Register the platform; where that fails, one that says so when it is opened."""
    try:
        _register(platform)
    except EdgecError as error:
        _fail_later(platform, error)


def _register(platform: str) -> None:
    """Build or find the plugin's library, and give it to JAX.

    Raises:
        EdgecError: it is not there, or is told nonsense.
    """
    import jax
    from jax._src import xla_bridge

    from edgec.runtime.pjrt_library import find_plugin

    _refuse_another_jax(jax.__version__)
    options = _options()
    xla_bridge.register_plugin(platform, library_path=str(find_plugin()), options=options)
    _lower_as_edgec_does(platform, options["devices"])


def _refuse_another_jax(version: str) -> None:
    """Refuse a JAX that this edgec was not made for: what a plugin uses of it is no public part.

    Raises:
        MissingExtra: it is another one.
    """
    for line in metadata.requires("edgec") or ():
        wanted = Requirement(line)
        is_ours = wanted.marker is not None and wanted.marker.evaluate({"extra": "jax"})
        if wanted.name == "jax" and is_ours and not wanted.specifier.contains(version):
            raise MissingExtra(
                f"edgec's platform needs jax{wanted.specifier}, and jax {version} is installed",
                hint="pip install 'edgec[jax]'",
            )


def _options() -> dict[str, str]:
    """What the plugin is told.

    Raises:
        UsageError: a device that there is not, or another word for what is refused.
    """
    devices = os.environ.get(DEVICES_VARIABLE, "cpu")
    unknown = [name for name in devices.split(",") if not _DEVICE.fullmatch(name)]
    if unknown:
        raise UsageError(
            f"{DEVICES_VARIABLE}={devices} names the device {unknown[0]!r}",
            hint=f"it takes {', '.join(_DRIVERS)}, with commas between, or with a device's number, "
            f"as cuda:1",
        )
    from edgec.plugins.pjrt.callbacks import address

    refused = os.environ.get(REFUSED_VARIABLE, "error")
    if refused not in _REFUSED:
        raise UsageError(
            f"{REFUSED_VARIABLE}={refused} says nothing", hint=f"it is {' or '.join(_REFUSED)}"
        )
    return {
        "devices": devices,
        "refused": refused,
        "python": str(address()),
        "nccl": "\n".join(nccl_files()),
        "compiler": "\n".join((sys.executable, "-m", "edgec.plugins.pjrt.server")),
    }


def _lower_as_edgec_does(platform: str, devices: str) -> None:
    """Write linear algebra as operations, where JAX would call what only XLA or LAPACK has."""
    import jax
    from jax._src import shard_map, source_info_util
    from jax._src.interpreters import mlir

    from edgec.exporters.from_jax.rules import lowering_rules
    from edgec.plugins.pjrt.callbacks import lower_callbacks

    several = "," in devices
    for primitive, rule in lowering_rules():
        if several and primitive is shard_map.shard_map_p:
            continue  # the devices are there, also those of a mesh of one
        mlir.register_lowering(primitive, rule, platform=platform)
    mlir._platforms_with_donation.append(platform)
    # Where there is one device, shardings are calls that are easily taken out; where there are more
    # they say how programs are cut, in Shardy's own dialect.
    jax.config.update("jax_use_shardy_partitioner", several)
    lower_callbacks(platform)
    source_info_util.register_exclusion(str(Path(__file__).parents[2]))


def _fail_later(platform: str, error: EdgecError) -> None:
    """Register a platform that raises this error when it is opened."""
    from jax._src import xla_bridge

    def refuse() -> Any:
        raise error

    xla_bridge.register_backend_factory(platform, refuse, priority=-1, fail_quietly=False)
