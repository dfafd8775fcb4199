"""A folder of a program for a mesh, read: plan, module of parts, and each device's weights."""

import json
from pathlib import Path

from edgec.runtime.errors import ModuleError
from edgec.runtime.files import read_bytes
from edgec.runtime.mesh.plan import Plan
from edgec.runtime.module import Module

__all__ = ["MANIFEST", "MeshFolder", "is_mesh"]

MANIFEST = "mesh.json"
"""What makes a folder a program for a mesh: the plan, the module and each device's weights."""


class MeshFolder:
    """A program for a mesh, read and not loaded.

    Attributes:
        path: the folder.
        plan: what the devices do.
        module: the module with the program's parts.
        weights: the weights file of each device; None for a program without weights.
        target: what the module was compiled for.
    """

    def __init__(self, path: Path) -> None:
        """Read the manifest and the module.

        Raises:
            FileError: a file is missing.
            ModuleError: the manifest is damaged, or of another module.
        """
        self.path = path
        try:
            value = json.loads(read_bytes(path / MANIFEST))
            self.plan = Plan.from_json(value["plan"])
            self.target = str(value["target"])
            module, digest = str(value["module"]), str(value["digest"])
            weights = [None if name is None else path / str(name) for name in value["weights"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ModuleError(
                f"{path / MANIFEST} is damaged: {error!r}", hint="compile the program again"
            ) from error
        self.module = Module.read(path / module)
        if self.module.digest != digest or len(weights) != self.plan.mesh.devices:
            raise ModuleError(
                f"{path / MANIFEST} is not of the module beside it",
                hint="compile the program again, and copy the folder as a whole",
            )
        self.weights = weights


def is_mesh(path: Path) -> bool:
    """Whether a folder is a program for a mesh."""
    return (path / MANIFEST).is_file()
