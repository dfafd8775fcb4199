"""One function of a program for a mesh: whole arrays in, shards on devices, whole arrays out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.runtime.arguments import check_input
from edgec.runtime.array import DeviceArray
from edgec.runtime.mesh.channel import Value, host_array
from edgec.runtime.mesh.plan import Route
from edgec.runtime.mesh.shards import cut, is_whole, join
from edgec.runtime.signature import Signature

if TYPE_CHECKING:
    from edgec.runtime.mesh.running import LoadedMesh

__all__ = ["MeshFunction"]


class MeshFunction:
    """One function of the whole program."""

    def __init__(self, *, route: Route, owner: "LoadedMesh") -> None:
        self._route = route
        self._owner = owner
        self.signature: Signature = route.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with whole arrays; results nested as the model returned them.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        return self.signature.call(self.call_flat, args, kwargs)

    def call_flat(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """Call it with flat inputs in the signature's order; flat outputs.

        Raises:
            InputError: wrong count, or an argument has the wrong shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        specs, mesh = self.signature.inputs, self._owner.folder.plan.mesh
        self.signature.refuse_other_count(len(leaves))
        device = self._owner.first_device
        sizes: dict[str, int] = {}
        whole: list[np.ndarray] = []
        for spec, leaf in zip(specs, leaves, strict=True):
            array = check_input(spec, leaf, device, sizes)
            whole.append(array.numpy() if isinstance(array, DeviceArray) else array)
        cuts = [cut(leaf, how, mesh) for leaf, how in zip(whole, self._route.inputs, strict=True)]
        shards = [[each[number] for each in cuts] for number in self._owner.numbers]
        made = self._owner.go(self._route, shards)
        outputs = []
        for place, (_, how) in enumerate(self._route.outputs):
            if is_whole(how):
                found = [host_array(made[0][place])]
            else:
                found = self._owner.everywhere([of_one[place] for of_one in made])
            outputs.append(np.array(join(found, how, mesh)))
        return outputs

    def put(self, *args: Any, **kwargs: Any) -> list[list[Value]]:
        """Each device's shards of the arguments, on the device, for `on_devices`.

        Raises:
            InputError: an argument has the wrong name, shape or type.
            DeviceError: a device failed, or the program is closed.
        """
        device, sizes = self._owner.first_device, dict[str, int]()
        leaves = self.signature.bind(args, kwargs)
        specs = self.signature.inputs
        arrays = [
            check_input(s, leaf, device, sizes) for s, leaf in zip(specs, leaves, strict=True)
        ]
        return self._owner.put(self._route, [host_array(array) for array in arrays])

    def on_devices(self, shards: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """Call it with what `put` gave: each device's shards of the outputs, where they are.

        Raises:
            DeviceError: a device failed, or the program is closed.
        """
        return self._owner.go(self._route, shards)
