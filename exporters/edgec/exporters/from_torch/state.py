"""What a module's tensors hold before it runs, so that running it leaves no trace."""

from typing import Any

__all__ = ["Snapshot"]


class Snapshot:
    """The buffers of a module, and its parameters if a function may train them, to put back."""

    def __init__(self, owner: Any, *, parameters: bool) -> None:
        self._saved: list[tuple[dict[str, Any], str, Any, Any]] = []
        seen: set[int] = set()
        for module in owner.modules():
            tables = (module._buffers, module._parameters) if parameters else (module._buffers,)
            for table in tables:
                for name, tensor in table.items():
                    if tensor is not None and id(tensor) not in seen:
                        seen.add(id(tensor))
                        self._saved.append((table, name, tensor, tensor.detach().clone()))

    def restore(self) -> None:
        """Put every tensor back, by identity and by value."""
        import torch

        with torch.no_grad():
            for table, name, tensor, value in self._saved:
                table[name] = tensor
                tensor.copy_(value)
