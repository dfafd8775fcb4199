"""Attention in Triton: softmax(scores) V in one pass, without the matrix of scores."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.early import begin
from edgec.toolchain.kernels.cuda.triton.finish import multiply

__all__ = ["attention"]


@triton.jit
def attention(
    q, k, v, t0, t1, t2, o, work, counters, queries, keys, width, depth, scale_bits, cap_bits,
    q_at, q_outer, q_middle, q_inner, q_row, q_column,
    k_at, k_outer, k_middle, k_inner, k_row, k_column,
    v_at, v_outer, v_middle, v_inner, v_row, v_column,
    o_outer, o_middle, o_inner, o_row,
    t0_at, t0_outer, t0_middle, t0_inner, t0_row, t0_column, t0_bits,
    t1_at, t1_outer, t1_middle, t1_inner, t1_row, t1_column, t1_bits,
    t2_at, t2_outer, t2_middle, t2_inner, t2_row, t2_column, t2_bits,
    inners, slot, parts,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    T0: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr, CAPPED: tl.constexpr,
    SAFE: tl.constexpr, PRECISION: tl.constexpr,
    Q_PARTS: tl.constexpr, K_PARTS: tl.constexpr, V_PARTS: tl.constexpr, O_PARTS: tl.constexpr,
    Q_ROLLS: tl.constexpr, K_ROLLS: tl.constexpr, V_ROLLS: tl.constexpr, O_ROLLS: tl.constexpr,
    SPLIT: tl.constexpr, SEEN: tl.constexpr, FEW: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """O = softmax(scale * Q K^T, changed by terms) V for each head of three indices.

    Element (outer, middle, inner, row, i) of q is q[q_at + outer * q_outer + middle * q_middle +
    inner * q_inner + row * q_row + i * q_column]; likewise k and v, whose rows are keys, and o.
    Heads that share keys have steps of 0 in these. `width` elements of a query and `depth` of a
    value are read into D and E, powers of two. Rows may lie in windows: see `_placed`.

    With CAPPED scores become cap * tanh(scores). Then up to three terms follow, by T0 to T2: at 1 a
    bias times a factor is added, at 2 a score whose byte is 0 becomes another number, at 3 one
    whose byte is not; 0 is no term. Factor and number are the bits of an f32, as are scale and cap.
    With BM at 1 there is one query, which is multiplied by each key in f32.
    PRECISION: see `multiply`. With SAFE a row whose scores are all minus infinity gives zeros.
    Grid: (tiles of BM queries, middle and `inners` inner heads, outer heads).

    With SPLIT there is one tile of queries, and the grid's x are `parts` of the keys: each leaves
    its largest score, sum and weighted values in `work`, and the last one to come (by `counters`
    from `slot` on, which it sets back to 0) puts them together in order. SEEN, a power of two no
    less than `keys`, says that t0 is a mask of all queries alike, and that others' scores are too
    low to count beside any: parts are then of the keys from the first to the last that is seen. FEW
    is a power of two no less than `queries`. Without SPLIT, SEEN is how many keys' marks of t0 are
    looked at together, and those of the tile's queries count, which need not be alike.
    """
    if EARLY > 0:
        begin()
    outer = tl.program_id(2).to(tl.int64)
    middle = tl.program_id(1) // inners
    inner = tl.program_id(1) % inners
    tile = tl.program_id(0)
    first = 0
    last = keys
    if SPLIT:
        part = tile
        tile = 0
    row = tile * BM + tl.arange(0, BM)
    key = tl.arange(0, BN)
    wide = tl.arange(0, D)
    deep = tl.arange(0, E)
    scale = scale_bits.to(tl.float32, bitcast=True)
    cap = cap_bits.to(tl.float32, bitcast=True)
    q_head = q_at + outer * q_outer + middle * q_middle + inner * q_inner
    k_head = k_at + outer * k_outer + middle * k_middle + inner * k_inner
    v_head = v_at + outer * v_outer + middle * v_middle + inner * v_inner
    o_head = outer * o_outer + middle * o_middle + inner * o_inner
    if T0 > 0:
        t0 += t0_at + outer * t0_outer + middle * t0_middle + inner * t0_inner
    if T1 > 0:
        t1 += t1_at + outer * t1_outer + middle * t1_middle + inner * t1_inner
    if T2 > 0:
        t2 += t2_at + outer * t2_outer + middle * t2_middle + inner * t2_inner
    there = row < queries
    asked = _placed(row, q_head, q_row, Q_PARTS, Q_ROLLS)
    queried = tl.load(
        q + q_head + asked[:, None] + wide[None, :] * q_column,
        mask=there[:, None] & (wide < width)[None, :],
        other=0.0,
    )
    if SPLIT:
        if SEEN > 0:
            every = tl.arange(0, SEEN)
            mark = tl.load(t0 + every * t0_column, mask=every < keys, other=0) != 0
            mark = (mark == (T0 == 2)) & (every < keys)
            first = tl.min(tl.where(mark, every, keys), 0)
            last = tl.max(tl.where(mark, every + 1, 0), 0)
            # Where none is seen, all of them count alike.
            first = tl.where(last > 0, first, 0)
            last = tl.where(last > 0, last, keys)
        step = tl.cdiv(tl.cdiv(last - first, parts), BN) * BN
        first += part * step
        last = tl.minimum(first + step, last)
    elif SEEN > 0:
        first, last = _seen(t0, row, there, keys, t0_row, t0_column, BM, BN, T0, SEEN)
    most = tl.full((BM,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, E), dtype=tl.float32)
    for start in range(first, last, BN):
        fits = start + key < last
        place = _placed(start + key, k_head, k_row, K_PARTS, K_ROLLS)
        if BM == 1:
            held = _rows(k + k_head, place, wide, k_column, fits, width)
        else:
            held = tl.load(
                k + k_head + place[None, :] + wide[:, None] * k_column,
                mask=fits[None, :] & (wide < width)[:, None],
                other=0.0,
            )
        if SPLIT or BM == 1:
            # There are few keys: their values are on their way while scores are computed.
            valued = _placed(start + key, v_head, v_row, V_PARTS, V_ROLLS)
            values = _rows(v + v_head, valued, deep, v_column, fits, depth)
        if BM == 1:
            # One query by each key: matrix units would multiply 15 rows of nothing beside it.
            scores = tl.sum(held.to(tl.float32) * queried.to(tl.float32), 1)[None, :] * scale
        else:
            scores = tl.zeros((BM, BN), dtype=tl.float32)
            scores = multiply(queried, held, scores, PRECISION) * scale
        if CAPPED:
            scores = cap * (1.0 - 2.0 / (tl.exp(2.0 * scores) + 1.0))
        both = there[:, None] & fits[None, :]
        if T0 > 0:
            place = t0 + row[:, None] * t0_row + (start + key)[None, :] * t0_column
            scores = _changed(scores, place, both, t0_bits, T0)
        if T1 > 0:
            place = t1 + row[:, None] * t1_row + (start + key)[None, :] * t1_column
            scores = _changed(scores, place, both, t1_bits, T1)
        if T2 > 0:
            place = t2 + row[:, None] * t2_row + (start + key)[None, :] * t2_column
            scores = _changed(scores, place, both, t2_bits, T2)
        scores = tl.where(fits[None, :], scores, float("-inf"))
        more = tl.maximum(most, tl.max(scores, 1))
        # Where all so far is minus infinity, differences to it would be no numbers.
        level = tl.where(more == float("-inf"), 0.0, more)
        shares = tl.exp2((scores - level[:, None]) * 1.4426950408889634)
        fade = tl.exp2((most - level) * 1.4426950408889634)
        sums = sums * fade + tl.sum(shares, 1)
        if not (SPLIT or BM == 1):
            valued = _placed(start + key, v_head, v_row, V_PARTS, V_ROLLS)
            values = _rows(v + v_head, valued, deep, v_column, fits, depth)
        if BM == 1:
            added = tl.sum(tl.trans(shares) * values.to(tl.float32), 0)
            total = total * fade[:, None] + added[None, :]
        else:
            shares = shares.to(v.dtype.element_ty)
            total = multiply(shares, values, total * fade[:, None], PRECISION)
        most = more
    if SPLIT:
        head = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
        is_last = _put_down(
            total, most, sums, work, counters + slot, head, part, parts, queries, BM, E
        )
        if is_last:
            few = tl.arange(0, FEW)
            whole, shared = _together(work, head, parts, few, queries, BM, E, FEW)
            _store(
                o + o_head, whole, shared, _placed(few, o_head, o_row, O_PARTS, O_ROLLS),
                few < queries, deep, depth, SAFE,
            )  # fmt: skip
    else:
        _store(
            o + o_head, total, sums, _placed(row, o_head, o_row, O_PARTS, O_ROLLS),
            there, deep, depth, SAFE,
        )  # fmt: skip


@triton.jit
def _seen(
    t0, row, there, keys, t0_row, t0_column,
    BM: tl.constexpr, BN: tl.constexpr, T0: tl.constexpr, SEEN: tl.constexpr,
):  # fmt: skip
    """The keys that any query of a tile sees, from a multiple of BN on; all where one sees none."""
    low = tl.full((BM, SEEN), 2147483647, dtype=tl.int32)
    high = tl.zeros((BM, SEEN), dtype=tl.int32)
    each = tl.arange(0, SEEN)
    for start in range(0, keys, SEEN):
        at = start + each
        both = there[:, None] & (at < keys)[None, :]
        place = t0 + row[:, None] * t0_row + at[None, :] * t0_column
        mark = ((tl.load(place, mask=both, other=0) != 0) == (T0 == 2)) & both
        low = tl.minimum(low, tl.where(mark, at[None, :], 2147483647))
        high = tl.maximum(high, tl.where(mark, at[None, :] + 1, 0))
    ends = tl.max(high, 1)
    last = tl.max(ends, 0)
    # A query that sees none counts all keys alike.
    blind = tl.min(tl.where(there, ends, last), 0) == 0
    first = tl.where(blind, 0, tl.min(tl.min(low, 1), 0) // BN * BN)
    return first, tl.where(blind, keys, last)


@triton.jit
def _store(o, total, sums, place, there, deep, depth, SAFE: tl.constexpr):
    """Weighted values by their sums, where they belong."""
    total = total / sums[:, None]
    if SAFE:
        total = tl.where((sums == 0.0)[:, None], 0.0, total)
    tl.store(
        o + place[:, None] + deep[None, :],
        total.to(o.dtype.element_ty),
        mask=there[:, None] & (deep < depth)[None, :],
    )


@triton.jit
def _rows(held, place, wide, column, fits, width):
    """Rows of keys or values, 0 beyond the last."""
    return tl.load(
        held + place[:, None] + wide[None, :] * column,
        mask=fits[:, None] & (wide < width)[None, :],
        other=0.0,
    )


@triton.jit
def _put_down(
    total, most, sums, work, counters, head, part, parts, queries,
    BM: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """Leave a part's weighted values, largest scores and sums; whether it is the last to do so.

    `work` holds, for each head and part, BM x E values, then BM largest scores, then BM sums, of
    which those of queries that there are count.
    """
    line = tl.arange(0, BM)
    there = line < queries
    size = BM * (E + 2)
    mine = work + (head.to(tl.int64) * parts + part) * size
    tl.store(mine + line[:, None] * E + tl.arange(0, E)[None, :], total, mask=there[:, None])
    tl.store(mine + BM * E + line, most, mask=there)
    tl.store(mine + BM * (E + 1) + line, sums, mask=there)
    tl.debug_barrier()
    is_last = tl.atomic_add(counters + head, 1, sem="acq_rel", scope="gpu") == parts - 1
    if is_last:
        tl.atomic_xchg(counters + head, 0, sem="relaxed", scope="gpu")
    return is_last


@triton.jit
def _together(
    work, head, parts, few, queries, BM: tl.constexpr, E: tl.constexpr, FEW: tl.constexpr
):
    """Weighted values and their sums over all parts, for the `few` queries that there may be.

    Parts are read many at a time: one behind the other each would wait for memory.
    """
    MANY: tl.constexpr = min(16, 64 // FEW)
    size = BM * (E + 2)
    deep = tl.arange(0, E)
    level = tl.full((FEW,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((FEW,), dtype=tl.float32)
    total = tl.zeros((FEW, E), dtype=tl.float32)
    for first in range(0, parts, MANY):
        each = first + tl.arange(0, MANY)
        fits = (each < parts)[:, None] & (few < queries)[None, :]
        at = work + (head.to(tl.int64) * parts + each)[:, None] * size
        scores = tl.load(
            at + BM * E + few[None, :], mask=fits, other=float("-inf"), cache_modifier=".cg"
        )
        counts = tl.load(
            at + BM * (E + 1) + few[None, :], mask=fits, other=0.0, cache_modifier=".cg"
        )
        held = tl.load(
            (at + few[None, :] * E)[:, :, None] + deep[None, None, :],
            mask=fits[:, :, None],
            other=0.0,
            cache_modifier=".cg",
        )
        more = tl.maximum(level, tl.max(scores, 0))
        against = tl.where(more == float("-inf"), 0.0, more)
        old = tl.exp2((level - against) * 1.4426950408889634)
        new = tl.exp2((scores - against[None, :]) * 1.4426950408889634)
        sums = sums * old + tl.sum(counts * new, 0)
        total = total * old[:, None] + tl.sum(held * new[:, :, None], 0)
        level = more
    return total, sums


@triton.jit
def _placed(index, head, step, PARTS: tl.constexpr, ROLLS: tl.constexpr):
    """Where rows lie beyond `head`, by their number.

    In windows a number has parts: PARTS are size, step, size and so on, step, from the innermost
    part outwards, whose own step is `step`. ROLLS are size, step and shift of each axis of the
    memory that is turned: index i of it becomes (i + shift) % size. Both are empty where rows are
    even.
    """
    if len(PARTS) == 0:
        place = index * step
    else:
        place = index % PARTS[0] * step
        rest = index // PARTS[0]
        for n in tl.static_range(1, len(PARTS) - 1, 2):
            place += rest % PARTS[n + 1] * PARTS[n]
            rest = rest // PARTS[n + 1]
        place += rest * PARTS[len(PARTS) - 1]
    for n in tl.static_range(0, len(ROLLS), 3):
        here = (head.to(tl.int32) + place) // ROLLS[n + 1] % ROLLS[n]
        by = tl.where(here < ROLLS[n] - ROLLS[n + 2], ROLLS[n + 2], ROLLS[n + 2] - ROLLS[n])
        place += by * ROLLS[n + 1]
    return place


@triton.jit
def _changed(scores, place, both, bits, KIND: tl.constexpr):
    """Scores after one term, which lies at `place`."""
    number = bits.to(tl.float32, bitcast=True)
    if KIND == 1:
        scores += number * tl.load(place, mask=both, other=0.0).to(tl.float32)
    if KIND == 2:
        scores = tl.where(tl.load(place, mask=both, other=0) != 0, scores, number)
    if KIND == 3:
        scores = tl.where(tl.load(place, mask=both, other=0) == 0, scores, number)
    return scores
