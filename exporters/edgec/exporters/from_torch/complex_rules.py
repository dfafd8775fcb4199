"""Operations on complex numbers that PyTorch's `ComplexTensor` does not know, or gets wrong."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch import fourier

__all__ = ["Unknown", "is_composite", "pairing"]

_MOVING = (
    *("roll", "unfold", "as_strided", "tril", "triu", "diag_embed", "rot90", "unbind", "take"),
    *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "im2col", "pixel_shuffle"),
    *("replication_pad1d", "replication_pad2d", "replication_pad3d", "pixel_unshuffle"),
    *("trace", "alias_copy", "view_copy", "expand_copy", "permute_copy", "lift_fresh_copy"),
    *("unfold_copy", "narrow_copy", "split_copy", "split_with_sizes_copy", "channel_shuffle"),
)
"""Operations of one tensor that move numbers, or add some up, each part by itself."""

_TOGETHER = {
    **{"index_put": (0, 2), "_unsafe_index_put": (0, 2), "_index_put_impl": (0, 2)},
    **{"scatter": (0, 3), "index_copy": (0, 3), "index_fill": (0, 3), "slice_scatter": (0, 1)},
}
"""Operations that move numbers of several tensors, and the places of those, each part by itself."""

_CREATING = (
    *("zeros", "ones", "empty", "eye", "arange", "empty_strided", "empty_permuted"),
    *("zeros_like", "ones_like", "empty_like", "new_zeros", "new_ones", "new_empty"),
    "new_empty_strided",
)
"""Operations that make real numbers, of a complex type if asked."""

_FILLING = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
"""Operations that fill with a number, and its place among the arguments."""

Rule = Callable[..., Any]


class Unknown(Exception):
    """No rule is known of an operation on these arguments."""


def pairing() -> Any:
    """A mode in which no operation gives a plain complex tensor, but a `ComplexTensor` for it.

    Raises:
        Unknown: in the mode, where no rule is known of an operation.
    """
    import torch
    import torch.utils._pytree as pytree
    from torch._decomp import decomposition_table
    from torch._subclasses.complex_tensor import ComplexTensor
    from torch._subclasses.complex_tensor._ops.common import lookup_complex
    from torch.utils._python_dispatch import TorchDispatchMode

    class Pairing(TorchDispatchMode):  # type: ignore[misc]
        """Applies the rules here, then PyTorch's own."""

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda x: _constant(x) if _is_plain(x) else x, (args, kwargs or {})
            )
            rule = _rules().get(func.overloadpacket)
            if rule is not None:
                with self:
                    found = rule(*args, **kwargs)
                if found is not NotImplemented:
                    return found
            leaves = pytree.tree_leaves((list(args), dict(kwargs)))
            if any(isinstance(leaf, ComplexTensor) for leaf in leaves):
                with self:
                    found = func.decompose(*args, **kwargs) if is_composite(func) else None
                    if found is None or found is NotImplemented:
                        own = lookup_complex(func, *args, **kwargs)
                        own = own or decomposition_table.get(func)
                        if own is None:
                            raise Unknown(str(func))
                        found = own(*args, **kwargs)
                return found
            if not _gives_complex(leaves):
                found = func(*args, **kwargs)
                if not any(_is_plain(leaf) for leaf in pytree.tree_leaves(found)):
                    return found
            if is_composite(func):
                with self:
                    return func.decompose(*args, **kwargs)
            with self:
                args, kwargs = pytree.tree_map_only(
                    torch.Tensor, _widened, (list(args), dict(kwargs))
                )
                if not any(_is_pair(leaf) for leaf in pytree.tree_leaves((args, kwargs))):
                    raise Unknown(str(func))
                return func(*args, **kwargs)

    return Pairing()


def _constant(x: Any) -> Any:
    """A complex tensor that an operation makes by itself, as a number or a list of them."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import _disable_current_modes

    if isinstance(x, FakeTensor):
        raise Unknown("a complex value that no rule has made")
    with _disable_current_modes():
        parts = [torch.view_as_real(x.resolve_conj())[..., place].tolist() for place in (0, 1)]
    kind = x.dtype.to_real()
    if x.ndim:
        return _pair(*(torch.tensor(part, dtype=kind) for part in parts))
    return _pair(*(torch.full((), part, dtype=kind) for part in parts))


def is_composite(func: Any) -> bool:
    """Whether PyTorch computes an operator by others, on every device."""
    import torch

    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(func.has_kernel_for_dispatch_key(key))


def _gives_complex(leaves: Sequence[Any]) -> bool:
    """Whether a number or a type among arguments makes the result complex."""
    import torch

    return any(
        isinstance(leaf, complex) or (isinstance(leaf, torch.dtype) and leaf.is_complex)
        for leaf in leaves
    )


def _is_plain(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.dtype.is_complex and not _is_pair(value)


@functools.cache
def _rules() -> Mapping[Any, Rule]:
    import torch

    aten = torch.ops.aten
    made: dict[Any, Rule] = {
        aten.complex: lambda *parts: _pair(*torch.broadcast_tensors(*parts)),
        aten.polar: lambda size, angle: _pair(size * angle.cos(), size * angle.sin()),
        aten.view_as_complex: lambda x: _pair(x.select(-1, 0), x.select(-1, 1)),
        aten.view_as_real: lambda x: torch.stack([x.re, x.im], -1),
        aten.abs: lambda x: torch.hypot(x.re, x.im) if _is_pair(x) else NotImplemented,
        aten._fft_c2c: lambda x, *rest: _pair(*fourier.complex_to_complex((x.re, x.im), *rest)),
        aten._fft_r2c: lambda x, *rest: _pair(*fourier.real_to_complex(x, *rest)),
        aten._fft_c2r: lambda x, *rest: fourier.complex_to_real((x.re, x.im), *rest),
        aten._to_copy: _to_copy,
        aten.sigmoid: lambda x: (1 + (-x).exp()).reciprocal() if _is_pair(x) else NotImplemented,
        aten.exp2: lambda x: (x * math.log(2)).exp() if _is_pair(x) else NotImplemented,
        aten.log2: functools.partial(_logarithm, 2),
        aten.log10: functools.partial(_logarithm, 10),
    }
    for name in _MOVING:
        made[getattr(aten, name)] = functools.partial(_each, getattr(aten, name))
    made[torch.ops.prims.convert_element_type] = lambda x, dtype: _to_copy(x, dtype=dtype)
    for name, places in _TOGETHER.items():
        operation = getattr(aten, name)
        made[operation] = functools.partial(_together, operation, places)
    for name in _CREATING:
        made[getattr(aten, name)] = functools.partial(_created, getattr(aten, name))
    for name, place in _FILLING.items():
        operation = getattr(aten, name)
        made[operation] = functools.partial(_filled, operation, place=place)
    return made


def _pair(real: Any, imaginary: Any) -> Any:
    from torch._subclasses.complex_tensor import ComplexTensor

    return ComplexTensor(real, imaginary)


def _each(operation: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Each part by itself."""
    import torch.utils._pytree as pytree

    if not _is_pair(x):
        return NotImplemented
    return pytree.tree_map(
        _pair, operation(x.re, *args, **kwargs), operation(x.im, *args, **kwargs)
    )


def _together(operation: Any, places: Sequence[int], *args: Any, **kwargs: Any) -> Any:
    """Each part by itself, of the arguments at some places; what is real there has no second."""
    import torch

    if not any(_is_pair(arg) or isinstance(arg, complex) for arg in args):
        return NotImplemented
    parts = []
    for number in (0, 1):
        given = list(args)
        for place in places:
            value = args[place]
            if _is_pair(value):
                given[place] = (value.re, value.im)[number]
            elif isinstance(value, torch.Tensor):
                kind = args[0].re.dtype if _is_pair(args[0]) else value.dtype
                given[place] = torch.zeros_like(value, dtype=kind) if number else value.to(kind)
            else:
                given[place] = (complex(value).real, complex(value).imag)[number]
        parts.append(operation(*given, **kwargs))
    return _pair(*parts)


def _widened(x: Any) -> Any:
    """A real tensor of floats or integers as a complex one."""
    import torch

    if x.dtype == torch.bool:
        return x
    real = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    return _pair(real, torch.zeros_like(real))


def _is_pair(value: Any) -> bool:
    from torch._subclasses.complex_tensor import ComplexTensor

    return isinstance(value, ComplexTensor)


def _to_copy(x: Any, *, dtype: Any = None, **rest: Any) -> Any:
    import torch

    if not _is_pair(x) and (dtype is None or not dtype.is_complex):
        return NotImplemented
    kept = {key: value for key, value in rest.items() if key == "device"}
    if dtype is None or dtype == x.dtype:
        return _pair(x.re.clone(), x.im.clone())
    if not _is_pair(x):
        real = torch.ops.aten._to_copy(x, dtype=dtype.to_real(), **kept)
        return _pair(real, torch.zeros_like(real))
    if not dtype.is_complex:
        if dtype == torch.bool:
            return (x.re != 0) | (x.im != 0)
        return torch.ops.aten._to_copy(x.re, dtype=dtype, **kept)
    kind = dtype.to_real()
    return _pair(*(torch.ops.aten._to_copy(part, dtype=kind, **kept) for part in (x.re, x.im)))


def _real_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a real part."""
    given = [arg.re if _is_pair(arg) else arg for arg in args]
    named = dict(kwargs)
    if named.get("dtype") is not None:
        named["dtype"] = named["dtype"].to_real() if named["dtype"].is_complex else named["dtype"]
    return given, named


def _is_complex(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether pairs or complex numbers are among arguments."""
    import torch.utils._pytree as pytree

    leaves = pytree.tree_leaves((list(args), dict(kwargs)))
    return any(_is_pair(leaf) for leaf in leaves) or _gives_complex(leaves)


def _logarithm(base: float, x: Any) -> Any:
    import torch

    return torch.log(x) / math.log(base) if _is_pair(x) else NotImplemented


def _is_real(kwargs: Mapping[str, Any]) -> bool:
    """Whether a type that is named makes the result real."""
    dtype = kwargs.get("dtype")
    return dtype is not None and not dtype.is_complex


def _created(operation: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    if not _is_complex(args, kwargs):
        return NotImplemented
    given, named = _real_of(args, kwargs)
    made = operation(*given, **named)
    return made if _is_real(kwargs) else _pair(made, torch.zeros_like(made))


def _filled(operation: Any, *args: Any, place: int, **kwargs: Any) -> Any:
    if not _is_complex(args, kwargs):
        return NotImplemented
    given, named = _real_of(args, kwargs)
    value = given[place]
    if _is_real(kwargs):
        return operation(*given, **named)
    parts = []
    for part in (complex(value).real, complex(value).imag):
        given[place] = part
        parts.append(operation(*given, **named))
    return _pair(*parts)
