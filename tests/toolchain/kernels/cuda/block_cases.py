"""Products by weights in blocks, and attention of one query, for `interpreted.py`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["BLOCK_CASES", "GPUS"]


def nibbles(codes: Any, span: int) -> Any:
    """Codes of four bits out of bytes: the low halves of a run first, then the high ones."""
    runs = codes.reshape(codes.shape[0], -1, span // 2)
    high = jax.lax.shift_right_logical(runs, jnp.int8(4))
    return jnp.concatenate([runs & jnp.int8(15), high], -1).reshape(codes.shape[0], -1)


def floats(codes: Any, scale: Any, least: Any = None, zero: int = 0) -> Any:
    """Weights out of codes (outputs x inner) and numbers (outputs x groups)."""
    value = codes.reshape(*scale.shape, -1).astype(jnp.float32)
    value = value - jnp.float32(zero) if zero else value
    value = value * scale[..., None].astype(jnp.float32)
    value = value if least is None else value + least[..., None].astype(jnp.float32)
    return value.reshape(codes.shape[0], -1)


def levels(small: Any, large: Any) -> Any:
    """Numbers of groups as bytes times factors of some neighbouring groups."""
    wide = jnp.repeat(large, small.shape[1] // large.shape[1], axis=1)
    return small.astype(jnp.float32) * wide


def norm(x: Any, scale: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def four(x: Any, codes: Any, scale: Any, least: Any, bias: Any, other: Any) -> Any:
    return jax.nn.relu(x @ floats(nibbles(codes, 32), scale, least).T + bias + other)


def four_of_one(x: Any, codes: Any, scale: Any, least: Any, other: Any) -> Any:
    return jax.nn.relu(x @ floats(nibbles(codes, 32), scale, least).T + other)


def pairs(x: Any, codes: Any, scale: Any) -> Any:
    return x @ floats(nibbles(codes, 2), scale, zero=8).T


def eight(x: Any, codes: Any, scale: Any) -> Any:
    return x @ floats(codes, scale).T


def by_levels(x: Any, codes: Any, scale: Any, scales: Any, least: Any, leasts: Any) -> Any:
    return x @ floats(nibbles(codes, 32), levels(scale, scales), levels(least, leasts)).T


def three(x: Any, factors: Any, *parts: Any) -> Any:
    """Products of the rows of a norm, as queries, keys and values are."""
    x = norm(x, factors)
    return tuple(x @ floats(*parts[n : n + 2]).T for n in (0, 2, 4))


def gated(x: Any, factors: Any, *parts: Any) -> Any:
    x = norm(x, factors)
    up, gate = (floats(nibbles(parts[n], 32), *parts[n + 1 : n + 3], zero=8) for n in (0, 3))
    return jax.nn.silu(x @ gate.T) * (x @ up.T)


def seen(q: Any, k: Any, v: Any) -> Any:
    """One query of heads that share keys, of which some are seen."""
    key = jnp.arange(k.shape[1])
    scores = jnp.einsum("hgd,hkd->hgk", q, k) / 8
    scores = jnp.where((key >= 20) & (key < 250), scores, -jnp.inf)
    return jnp.einsum("hgk,hkd->hgd", jax.nn.softmax(scores), v)


def in_halves(q: Any, k: Any, v: Any) -> Any:
    return seen(q, k.astype(jnp.float32), v.astype(jnp.float32))


def unseen(q: Any, k: Any, v: Any) -> Any:
    """The same where nothing is seen: all keys count alike."""
    scores = jnp.where(jnp.arange(k.shape[1]) < 0, jnp.einsum("hgd,hkd->hgk", q, k), -3e38)
    return jnp.einsum("hgk,hkd->hgd", jax.nn.softmax(scores), v)


def unmasked(q: Any, k: Any, v: Any, bias: Any) -> Any:
    scores = jnp.einsum("hd,hkd->hk", q, k) / 8 + bias
    return jnp.einsum("hk,hkd->hd", jax.nn.softmax(scores), v)


BYTE, HALF, WHOLE = "int8", "float16", "float32"

BLOCK_CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], tuple[str, ...]]] = {
    "f32: by 4 bits": (
        four,
        ((3, 96), (37, 3, 16), (37, 3), (37, 3), (37,), (3, 37)),
        (WHOLE, BYTE, HALF, HALF, WHOLE, WHOLE),
    ),
    "f32: by pairs": (pairs, ((1, 160), (9, 80), (9, 5)), (WHOLE, BYTE, WHOLE)),
    "f32: by 8 bits": (eight, ((2, 640), (11, 640), (11, 40)), (WHOLE, BYTE, HALF)),
    "f32: by 8 bits an output": (eight, ((1, 640), (11, 640), (11, 1)), (WHOLE, BYTE, HALF)),
    "f32: by two levels": (
        by_levels,
        ((1, 512), (21, 256), (21, 16), (21, 2), (21, 16), (21, 2)),
        (WHOLE, BYTE, BYTE, WHOLE, BYTE, WHOLE),
    ),
    "f32: by 4 bits in turns": (
        four,
        ((3, 96), (101, 3, 16), (101, 3), (101, 3), (101,), (3, 101)),
        (WHOLE, BYTE, HALF, HALF, WHOLE, WHOLE),
    ),
    "f32: by 4 bits, two tiles": (
        four_of_one,
        ((1, 160), (101, 5, 16), (101, 5), (101, 5), (1, 101)),
        (WHOLE, BYTE, HALF, HALF, WHOLE),
    ),
    "f32: three of a row, two tiles": (
        three,
        ((1, 608), (608,), (21, 608), (21, 19), (37, 608), (37, 19), (9, 608), (9, 19)),
        (WHOLE, WHOLE, *(BYTE, HALF) * 3),
    ),
    "f32: a gate, two tiles": (
        gated,
        ((1, 96), (96,), *((45, 48), (45, 3), (45, 3)) * 2),
        (WHOLE, WHOLE, *(BYTE, HALF, HALF) * 2),
    ),
    "f32: by 8 bits in chunks": (eight, ((3, 640), (41, 640), (41, 20)), (WHOLE, BYTE, HALF)),
    "f32: by 4 bits, tile after tile": (
        four_of_one,
        ((1, 2304), (165, 72, 16), (165, 72), (165, 72), (1, 165)),
        (WHOLE, BYTE, HALF, HALF, WHOLE),
    ),
    "f32: by 8 bits, tile after tile": (
        eight,
        ((2, 640), (229, 640), (229, 40)),
        (WHOLE, BYTE, HALF),
    ),
    "f32: a gate, tile after tile": (
        gated,
        ((3, 512), (512,), *((229, 256), (229, 16), (229, 16)) * 2),
        (WHOLE, WHOLE, *(BYTE, HALF, HALF) * 2),
    ),
    "f32: three of a row, tile after tile": (
        three,
        ((1, 512), (512,), (137, 512), (137, 16), (53, 512), (53, 16), (9, 512), (9, 16)),
        (WHOLE, WHOLE, *(BYTE, HALF) * 3),
    ),
    "f32: many rows by 4 bits": (
        four,
        ((19, 96), (37, 3, 16), (37, 3), (37, 3), (37,), (19, 37)),
        (WHOLE, BYTE, HALF, HALF, WHOLE, WHOLE),
    ),
    "f32: many rows by pairs": (pairs, ((70, 160), (9, 80), (9, 5)), (WHOLE, BYTE, WHOLE)),
    "f32: many rows by 8 bits": (eight, ((9, 640), (11, 640), (11, 40)), (WHOLE, BYTE, HALF)),
    "f32: many rows by 8 bits an output": (
        eight,
        ((65, 2048), (75, 2048), (75, 1)),
        (WHOLE, BYTE, HALF),
    ),
    "f32: many rows by two levels": (
        by_levels,
        ((20, 512), (21, 256), (21, 16), (21, 2), (21, 16), (21, 2)),
        (WHOLE, BYTE, BYTE, WHOLE, BYTE, WHOLE),
    ),
    "f32: three of a norm": (
        three,
        ((1, 64), (64,), (21, 64), (21, 4), (5, 64), (5, 4), (9, 64), (9, 4)),
        (WHOLE, WHOLE, *(BYTE, HALF) * 3),
    ),
    "f32: a gate": (
        gated,
        ((2, 64), (64,), *((13, 32), (13, 2), (13, 2)) * 2),
        (WHOLE, WHOLE, *(BYTE, HALF, HALF) * 2),
    ),
    "f32: a query and keys that are seen": (
        seen,
        ((2, 3, 64), (2, 300, 64), (2, 300, 64)),
        (WHOLE,) * 3,
    ),
    "f32: a query and keys that are kept in halves": (
        in_halves,
        ((2, 3, 64), (2, 300, 64), (2, 300, 64)),
        (WHOLE, HALF, HALF),
    ),
    "f32: a query and no keys that are seen": (
        unseen,
        ((2, 3, 64), (2, 300, 64), (2, 300, 64)),
        (WHOLE,) * 3,
    ),
    "f32: a query and a bias": (
        unmasked,
        ((4, 48), (4, 300, 48), (4, 300, 40), (4, 300)),
        (WHOLE,) * 4,
    ),
}
"""By name: the function, the sizes of what it takes, and their types."""

GPUS = {
    **{name: {"multiprocessors": 1} for name in BLOCK_CASES if name.endswith("two tiles")},
    "f32: by 4 bits in turns": {"multiprocessors": 1, "shared_memory": 20_000},
    **{
        name: {"multiprocessors": 1, "shared_memory": 200_000}
        for name in BLOCK_CASES
        if name.endswith("tile after tile")
    },
    "f32: by 8 bits in chunks": {"shared_memory": 16_000},
}
"""In what a GPU differs: it runs fewer programs than there are tiles, has many for each
multiprocessor, or holds no whole tile."""
