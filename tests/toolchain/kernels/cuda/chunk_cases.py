"""Attention of some queries by many keys, most of which they do not see: a prompt by a cache."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_KEY, _LAST = np.arange(300), 150 + np.arange(40)[:, None]
_SEEN = {
    "causal": _KEY <= _LAST,
    "window": abs(_KEY - _LAST) < 20,
    "some see nothing": _KEY > _LAST + 140,
    "all is seen": _KEY >= 0 * _LAST,
}


def _chunk(*masks: np.ndarray, hidden: float) -> Callable[..., Any]:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hqd,hkd->hqk", q, k).astype(jnp.float32) / 4
        for mask in masks:
            scores = scores + jnp.where(mask, 0, hidden)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores).astype(v.dtype), v)

    return attention


_LEAST = float(np.finfo(np.float32).min)
CHUNKS: Mapping[str, Callable[..., Any]] = {
    **{name: _chunk(mask, hidden=_LEAST) for name, mask in _SEEN.items()},
    "nothing is seen by two masks": _chunk(_SEEN["causal"], _KEY > _LAST - 5, hidden=_LEAST),
    "two masks of infinity": _chunk(_SEEN["causal"], _KEY > _LAST - 50, hidden=-np.inf),
    "two masks that leave none": _chunk(_SEEN["causal"], _KEY > _LAST, hidden=_LEAST),
}
"""Functions of queries (2 x 40 x 16), keys and values (2 x 300 x 16)."""
