"""The faults: each a change of one place in the compiler, the model that meets it, and its line."""

from dataclasses import dataclass

__all__ = ["FAULTS", "Fault"]

_CPU = "kernels/cpu/source"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault.

    Attributes:
        what: what is wrong, in a few words.
        file: in `toolchain/edgec/toolchain`.
        old, new: the text there, once, and what it becomes.
        model: the function in `models.py` that meets it.
        line: the name of the line there whose kernel or pass is wrong.
    """

    what: str
    file: str
    old: str
    new: str
    model: str
    line: str


def _fault(what: str, file: str, old: str, new: str, model: str, line: str) -> Fault:
    return Fault(what=what, file=file, old=old, new=new, model=model, line=line)


FAULTS = (
    _fault(
        "a clip keeps the smaller",
        f"{_CPU}/epilogue.py",
        '"stablehlo.maximum": "arith.maximumf"',
        '"stablehlo.maximum": "arith.minimumf"',
        *("stem", "clip"),
    ),
    _fault(
        "a clip is dropped",
        f"{_CPU}/epilogue.py",
        "        return lines, done[-1] if done else total\n",
        "        return lines, done[0] if done else total\n",
        *("stem", "clip"),
    ),
    _fault(
        "a difference is a sum",
        f"{_CPU}/epilogue.py",
        '"stablehlo.subtract": "arith.subf"',
        '"stablehlo.subtract": "arith.addf"',
        *("residual", "taken"),
    ),
    _fault(
        "a comparison is turned",
        f"{_CPU}/epilogue.py",
        '"LT": "olt"',
        '"LT": "ogt"',
        *("dense", "bend"),
    ),
    _fault(
        "a sign is lost",
        f"{_CPU}/epilogue.py",
        '"stablehlo.negate": "arith.negf"',
        '"stablehlo.negate": "math.absf"',
        *("dense", "third"),
    ),
    _fault(
        "the second vector has the first one's weights",
        f"{_CPU}/convolution.py",
        'yield f"%o{v} = arith.addi %q, {w.index(v * cut.lanes)} : index"',
        'yield f"%o{v} = arith.addi %q, {w.index(0)} : index"',
        *("stem", "first"),
    ),
    _fault(
        "the last pixel of a tile is one too far",
        f"{_CPU}/convolution.py",
        "            offset = row * conv.stride[0] * conv.width + column * conv.stride[1]\n",
        "            column_ = column - (column == cut.columns - 1 > 0)\n"
        "            offset = row * conv.stride[0] * conv.width + column_ * conv.stride[1]\n",
        *("stem", "first"),
    ),
    _fault(
        "a window's rows lie one pixel too near",
        f"{_CPU}/convolution.py",
        "w.index(conv.dilation[0] * conv.width)",
        "w.index(conv.dilation[0] * (conv.width - 1))",
        *("stem", "first"),
    ),
    _fault(
        "a border is not written: what lay in the buffer stays",
        f"{_CPU}/result.py",
        '"l": ("%x0", 0, (-left, 0))',
        '"l": ("%x0", 0, (0, 0))',
        *("stem", "first"),
    ),
    _fault(
        "every vector has the first one's bias",
        f"{_CPU}/result.py",
        'yield f"%at{c}_{v} = arith.addi %n0, {w.index(v * tile.lanes)} : index"',
        'yield f"%at{c}_{v} = arith.addi %n0, {w.index(0)} : index"',
        *("stem", "bias"),
    ),
    _fault(
        "what is added is read as if it had a border",
        f"{_CPU}/result.py",
        "        offset = self._offset(pixel, v, tile, self.width)\n",
        "        offset = self._offset(pixel, v, tile, self.width + 1)\n",
        *("residual", "taken"),
    ),
    _fault(
        "weights are packed one row off",
        "kernels/cpu/weights.py",
        "    matrix = array.reshape(-1, array.shape[-1])\n",
        "    matrix = np.roll(array.reshape(-1, array.shape[-1]), 1, 0)\n",
        *("stem", "first"),
    ),
    _fault(
        "Winograd's weights are transposed",
        "kernels/cpu/weights.py",
        '"ai,bj,ijco->abco"',
        '"ai,bj,jico->abco"',
        *("wide", "first"),
    ),
    _fault(
        "a wrong sign in Winograd's input",
        f"{_CPU}/winograd.py",
        'f"{names[2]} = arith.subf {d[2]}, {d[1]} : {kind}"',
        'f"{names[2]} = arith.addf {d[2]}, {d[1]} : {kind}"',
        *("wide", "first"),
    ),
    _fault(
        "a norm's shift is taken away",
        f"{_CPU}/norm.py",
        "            value = arith.addf(value, next(left))\n",
        "            value = arith.subf(value, next(left))\n",
        *("norm", "norm"),
    ),
    _fault(
        "a norm's deviation is not of what differs from the mean",
        f"{_CPU}/norm.py",
        "        value = self._centred(value, known)\n        if self.fused:\n",
        "        if self.fused:\n",
        *("norm", "deviation"),
    ),
    _fault(
        "a norm's epsilon is forgotten",
        f"{_CPU}/norm.py",
        "number(self.epsilon, squares.type)",
        "number(0.0, squares.type)",
        *("norm", "deviation"),
    ),
    _fault(
        "a softmax divides by the largest power",
        f"{_CPU}/softmax.py",
        "arith.addf(total, _power(value, known[0]))",
        "arith.maxnumf(total, _power(value, known[0]))",
        *("choice", "softmax"),
    ),
    _fault(
        "attention forgets its scale",
        f"{_CPU}/attention_by_query.py",
        "        scale = b.number(a.scale, self.kind)\n",
        "        scale = b.number(1.0, self.kind)\n",
        *("attention", "scores"),
    ),
    _fault(
        "attention takes its mask away",
        f"{_CPU}/attention_query_terms.py",
        'f"arith.addf {score}, {seen}"',
        'f"arith.subf {score}, {seen}"',
        *("attention", "weights"),
    ),
    _fault(
        "the rest of a product's rows is one row off",
        f"{_CPU}/product.py",
        "self.tile(index(kernel.m - rest), rest, start, stop)",
        "self.tile(index(kernel.m - rest - 1), rest, start, stop)",
        *("gram", "product"),
    ),
    _fault(
        "a product keeps only its last block of sums",
        f"{_CPU}/product.py",
        "            is_first = arith.cmpi(arith.CmpIPredicate.eq, start, index(0))\n",
        "            is_first = arith.cmpi(arith.CmpIPredicate.eq, start, start)\n",
        *("gram", "product"),
    ),
    _fault(
        "a recurrence reads one row of weights too far",
        f"{_CPU}/recurrence.py",
        "        at = self.sum(0, [(cut.width, k), (1, weights)], lines)\n",
        "        at = self.sum(0, [(cut.width - 1, k), (1, weights)], lines)\n",
        *("recurrent", "step"),
    ),
    _fault(
        "a turned image has its channels exchanged",
        f"{_CPU}/turn.py",
        "picks.append(lanes + column if of == row else kept)",
        "picks.append(lanes + column if of == turn.rows - row else kept)",
        *("planes", "one"),
    ),
    _fault(
        "a batch norm is folded with a wrong sign",
        "match/affine.py",
        '                summand = graph.binary("subtract", summand, vector)\n',
        '                summand = graph.binary("add", summand, vector)\n',
        *("folded", "norm"),
    ),
    _fault(
        "a pooling's window lacks its last column",
        "passes/simplify/separable_windows.py",
        "        for place in range(window):\n",
        "        for place in range(window - 1):\n",
        *("pooled", "pool"),
    ),
    _fault(
        "blocks of a transposed convolution are put turned about",
        "passes/simplify/spread_products.py",
        "        inner = graph.transpose(weights, [rank, *range(rank), rank + 1])\n",
        "        inner = graph.transpose(weights, [rank, *reversed(range(rank)), rank + 1])\n",
        *("blocks", "up"),
    ),
    _fault(
        "a phase of a transposed convolution begins too late",
        "passes/simplify/split_phases.py",
        "        first = places[0] if places else 0\n",
        "        first = min(places[-1], places[0] + 1) if places else 0\n",
        *("phases", "up"),
    ),
    _fault(
        "a power is one too high",
        "passes/legalise/signed_powers.py",
        "        return [_product(base, int(known))]\n",
        "        return [_product(base, int(known) + 1)]\n",
        *("powers", "power"),
    ),
    _fault(
        "equal elements are sorted the other way",
        "passes/legalise/stable_sorts.py",
        '        first = graph.compare("LT", left, right)\n',
        '        first = graph.compare("GT", left, right)\n',
        *("sorted_rows", "sort"),
    ),
    _fault(
        "what is left of an unrolled loop is lost",
        "passes/simplify/unroll_loops.py",
        "            results = _repeat(body, steps, list(loop.results), left)\n",
        "            results = _repeat(body, steps, list(loop.results), left - 1)\n",
        *("looped", "loop"),
    ),
    _fault(
        "a difference in the body of a loop is a sum",
        f"{_CPU}/epilogue.py",
        '"stablehlo.subtract": "arith.subf"',
        '"stablehlo.subtract": "arith.addf"',
        *("turned", "taken"),
    ),
    _fault(
        "a clip in the body of a loop keeps the smaller",
        f"{_CPU}/epilogue.py",
        '"stablehlo.maximum": "arith.maximumf"',
        '"stablehlo.maximum": "arith.minimumf"',
        *("turned", "clip"),
    ),
    _fault(
        "a norm in the body of a loop has its shift taken away",
        f"{_CPU}/norm.py",
        "            value = arith.addf(value, next(left))\n",
        "            value = arith.subf(value, next(left))\n",
        *("turned_norm", "norm"),
    ),
    _fault(
        "a product with its sides exchanged is not transposed right",
        "passes/simplify/weights_last.py",
        "        product = graph.product(right, left, (summed[1], summed[0]), like=op)\n",
        '        right = graph.unary("negate", right)\n'
        "        product = graph.product(right, left, (summed[1], summed[0]), like=op)\n",
        *("left", "product"),
    ),
    _fault(
        "a slice that is turned round has its signs changed",
        "passes/legalise/strided_slices.py",
        'own = graph.create("stablehlo.optimization_barrier", value.type, [value])\n',
        'own = graph.unary("negate", value)\n',
        *("backwards", "slice"),
    ),
)
