"""`torch.compile(model, backend="edgec")`: PyTorch's graphs as modules of edgec's.

PyTorch finds the backend by its entry point. TorchDynamo cuts a model into graphs, and AOTAutograd
makes them functions without side effects, forward and backward. A graph is compiled when it is
first called with inputs of new sizes: exported on these very inputs, and proved by PyTorch's
answers to them, as `edgec export` and `edgec compile` do. What Dynamo leaves to Python stays there.
"""

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec import exporters, runtime, toolchain
from edgec.exporters.from_torch.values import to_numpy
from edgec.plugins.draws import Draws
from edgec.plugins.kept_graphs import module_of
from edgec.plugins.orders import (
    has_channels_last,
    images,
    take_any_strides,
    turned,
    turned_back,
    with_strides,
)
from edgec.runtime.errors import EdgecError, UsageError
from edgec.targets import find

__all__ = ["backend"]

_log = logging.getLogger("edgec.plugins")
_OPTIONS = ("target", "device", "refused")


@dataclass(frozen=True, kw_only=True)
class _How:
    """What the user asked for.

    Attributes:
        target: what modules are compiled for.
        device: where they run; None is the target's own.
        refused: `error`, or `eager`: what edgec refuses runs in PyTorch, and a warning says so.
    """

    target: str = "cpu"
    device: str | None = None
    refused: str = "error"


def backend(
    graph: Any, inputs: Sequence[Any], *, options: Mapping[str, str] | None = None, **_: Any
) -> Callable[..., Any]:
    """Take a graph of TorchDynamo's; PyTorch calls this.

    Args:
        graph: the `torch.fx.GraphModule`.
        inputs: its inputs, without values.
        options: of `torch.compile`: `target` (`cpu`), `device` (the target's), `refused` (`error`,
            or `eager`: PyTorch runs what edgec refuses, with a warning).

    Raises:
        UsageError: an option that there is not.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch.nn.attention import SDPBackend, sdpa_kernel

    given = dict(options or {})
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        raise UsageError(
            f"the backend edgec has no option {unknown[0]}", hint=f"it has {', '.join(_OPTIONS)}"
        )
    how = _How(**given)
    if how.refused not in ("error", "eager"):
        raise UsageError(f"refused={how.refused}", hint="it is error or eager")
    find(how.target)
    settled = aot_autograd(
        fw_compiler=_compiler(how, is_frozen=False, keeps=True),
        bw_compiler=_compiler(how, is_frozen=False),
        inference_compiler=_compiler(how, is_frozen=True),
        partition_fn=min_cut_rematerialization_partition,
    )
    # Attention as products and a softmax, whose gradients have forms; a kernel's own have none.
    with sdpa_kernel(SDPBackend.MATH):
        made: Callable[..., Any] = settled(graph, inputs)
    return made


def _compiler(
    how: _How, *, is_frozen: bool, keeps: bool = False
) -> Callable[[Any, Sequence[Any]], Any]:
    """A compiler of AOTAutograd's; of graphs with `keeps` what comes last is for another graph."""

    def compiler(graph: Any, _: Sequence[Any]) -> Any:
        import torch
        from torch._functorch.aot_autograd import make_boxed_func

        context = torch._guards.TracingContext.try_get()
        about = None if context is None else context.fw_metadata
        still = about.static_input_indices if is_frozen and about is not None else ()
        take_any_strides(graph)
        kept = about.num_forward if keeps and about is not None else None
        return make_boxed_func(_Graph(graph, how, still, kept))

    return compiler


class _Graph:
    """A graph, and a module for each list of sizes that it was called with."""

    def __init__(
        self, graph: Any, how: _How, still: Sequence[int], kept: int | None = None
    ) -> None:
        """Take a graph.

        Args:
            graph: a function of tensors and sizes, without side effects.
            how: what the user asked for.
            still: which inputs are weights, to become constants while they stay as they are.
            kept: the first result that only the backward graph gets; None if there are none.
        """
        found = set() if kept is None else images(graph)
        self._last = frozenset(place for place in found if place >= (kept or 0))
        self._graph = graph
        self._how = how
        self._still = tuple(still)
        self._compiled: dict[Any, _Compiled | None] = {}

    def __call__(self, *given: Any) -> Sequence[Any]:
        inputs = with_strides(self._graph, given)
        key = tuple(map(_kind, inputs))
        weights = [inputs[index] for index in self._still]
        compiled = self._compiled.get(key)
        if compiled is not None and not compiled.holds(weights):
            _log.warning("weights of a compiled graph have changed: they are inputs from now on")
            self._still = ()
            self._compiled.clear()
        if key not in self._compiled:
            self._compiled[key] = self._compile(inputs)
        compiled = self._compiled[key]
        if compiled is None:
            found: Sequence[Any] = self._graph(*inputs)
            return found
        return compiled(inputs)

    def _compile(self, inputs: Sequence[Any]) -> "_Compiled | None":
        # In a thread of its own: PyTorch calls this below its dispatcher, where nothing is traced.
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(_Compiled, self._graph, inputs, self._still, self._how, self._last)
        try:
            return made.result()
        except EdgecError as error:
            if self._how.refused == "error":
                raise
            _log.warning("PyTorch runs a graph that edgec refuses: %s", error)
            return None


class _Compiled:
    """A graph's module for inputs of these sizes."""

    def __init__(
        self,
        graph: Any,
        inputs: Sequence[Any],
        still: Sequence[int],
        how: _How,
        last: frozenset[int],
    ) -> None:
        import torch

        moving = [
            index
            for index, value in enumerate(inputs)
            if isinstance(value, torch.Tensor) and index not in still
        ]
        self._moving = moving
        self._last = last
        self._turned = {index for index in moving if has_channels_last(inputs[index])}
        self._draws = Draws(graph)
        seed = torch.get_rng_state()
        with torch.no_grad():
            answers, drawn = self._draws.answers(inputs)
        torch.set_rng_state(seed)  # the first call draws the same numbers once more
        self._answers = [None if isinstance(each, torch.Tensor) else each for each in answers]
        # A forward graph hands weights and inputs on to the backward one as they are.
        self._passed = {
            place: index
            for place, each in enumerate(answers)
            for index, given in enumerate(inputs)
            if each is given and isinstance(each, torch.Tensor)
        }
        self._places = [
            place
            for place, each in enumerate(answers)
            if isinstance(each, torch.Tensor) and place not in self._passed
        ]
        self._weights: list[tuple[Any, int]] = []
        if not self._places:
            return
        given = (*self._given(inputs), *drawn)
        with tempfile.TemporaryDirectory(prefix="edgec-") as folder:

            def make() -> runtime.Module:
                part = self._part(inputs)
                program = exporters.export(part, given, framework="torch")
                options = toolchain.CompileOptions(output=Path(folder) / "graph.vmfb")
                return toolchain.compile(program, how.target, options)

            module = module_of(graph, inputs, still, find(how.target), make, sorted(last))
            self._loaded = runtime.load(module, device=how.device)
        # Export puts weights back as they were, which counts as a change.
        self._weights = [(inputs[index], _version(inputs[index])) for index in still]

    def holds(self, weights: Sequence[Any]) -> bool:
        """Whether the weights are still those that the module has."""
        return all(
            weight.data_ptr() == known.data_ptr() and _version(weight) == version
            for weight, (known, version) in zip(weights, self._weights, strict=False)
        )

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        results = list(self._answers)
        for place, index in self._passed.items():
            results[place] = inputs[index]
        if self._places:
            given = [*self._given(inputs), *self._draws.again()]
            device = self._loaded.device
            arrays = [
                device.put(to_numpy(value, f"input {index}"), copy=None)
                for index, value in enumerate(given)
            ]
            taken = {value.data_ptr() for value in given}
            for place, value in zip(self._places, self._loaded.main.call_flat(arrays), strict=True):
                tensor = _tensor(value)
                if place in self._last:
                    tensor = turned_back(tensor)
                # A module may give back an argument's own memory, and one value twice.
                results[place] = tensor.clone() if tensor.data_ptr() in taken else tensor
                taken.add(tensor.data_ptr())
        return results

    def _given(self, inputs: Sequence[Any]) -> list[Any]:
        """Inputs that move, dense as they lie."""
        return [
            turned(inputs[index]) if index in self._turned else inputs[index].detach()
            for index in self._moving
        ]

    def _part(self, inputs: Sequence[Any]) -> Any:
        """The graph as a module: of the inputs that move and of what is drawn, the others bound.

        Tensors alone come out.
        """
        import torch

        moving, is_turned, places, last = self._moving, self._turned, self._places, self._last
        draws = self._draws

        class Part(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self._bound: dict[int, str] = {}
                for index, value in enumerate(inputs):
                    if index not in moving and isinstance(value, torch.Tensor):
                        self._bound[index] = f"weight{index}"
                        self.register_buffer(f"weight{index}", value.detach())

            def forward(self, *given: Any) -> tuple[Any, ...]:
                values = list(inputs)
                for index, value in zip(moving, given, strict=False):
                    values[index] = turned_back(value) if index in is_turned else value
                for index, name in self._bound.items():
                    values[index] = getattr(self, name)
                results = draws.put(given[len(moving) :], values)
                return tuple(
                    turned(results[place]) if place in last else results[place] for place in places
                )

        return Part().eval()


def _kind(value: Any) -> Any:
    """What a module is compiled for: a tensor's sizes, type and order, or a size itself.

    Raises:
        UsageError: the tensor is not in the host's memory.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "cpu":
        raise UsageError(
            f"the backend edgec got a tensor on {value.device}",
            hint="keep model and inputs on the CPU: edgec moves them to its device",
        )
    return (tuple(value.shape), value.dtype, has_channels_last(value))


def _version(tensor: Any) -> int:
    """A number that changes with what a tensor holds; inference tensors do not change."""
    return 0 if tensor.is_inference() else int(tensor._version)


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_dlpack(array)
