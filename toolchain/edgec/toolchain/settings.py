"""What a compile may be told besides its program and target, as one value that can be kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.gpu.tiles import Tile

__all__ = ["Settings"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One way to compile.

    Attributes:
        level: 0 to 3, as in `-O2`.
        disabled: names of edgec's passes that are left out, sorted.
        iree_args: flags for iree-compile after edgec's own.
        cuts: how kernels of edgec's own are cut, by `KernelKey`.
        tiles: the same for kernels of GPUs, by `ProductKey` or `ConvolutionKey`.
    """

    level: int = 2
    disabled: tuple[str, ...] = ()
    iree_args: tuple[str, ...] = ()
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    tiles: Mapping[str, Tile] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The same for the same settings."""
        return json.dumps(self.to_json(), sort_keys=True)

    def words(self) -> list[str]:
        """The settings as a person would type or say them; nothing for what is the default."""
        words = [f"-O{self.level}"] if self.level != Settings.level else []
        words += [f"--disable-pass={name}" for name in self.disabled]
        words += [f"--iree-arg={argument}" for argument in self.iree_args]
        count = len(self.cuts) + len(self.tiles)
        if count:
            words.append(f"{count} kernel{'s' if count > 1 else ''} cut anew")
        return words

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "level": self.level,
            "disabled": list(self.disabled),
            "iree_args": list(self.iree_args),
            "cuts": {key: cut.to_json() for key, cut in sorted(self.cuts.items())},
            "tiles": {key: tile.to_json() for key, tile in sorted(self.tiles.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Settings":
        """What `to_json` made.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is something else.
        """
        return cls(
            level=int(value["level"]),
            disabled=tuple(str(name) for name in value["disabled"]),
            iree_args=tuple(str(argument) for argument in value["iree_args"]),
            cuts={str(key): Cut.from_json(cut) for key, cut in value["cuts"].items()},
            tiles={str(key): Tile.from_json(tile) for key, tile in value["tiles"].items()},
        )
