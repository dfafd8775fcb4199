"""Attention without a key gets zeros, and NaN elsewhere becomes what it did: NumPy's answers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.interpret import Interpreter
from edgec.toolchain.match.attention import read_attention
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from edgec.toolchain.passes.simplify.nan_shares import NanShares
from edgec.toolchain.stablehlo import parse_stablehlo

_SIZES = {"q": (2, 5, 8), "k": (2, 7, 8), "v": (2, 7, 6)}


def _attention(q: Any, k: Any, v: Any, mask: Any, numpy: Any = jnp) -> Any:
    scores = numpy.where(mask, q @ k.swapaxes(1, 2) * 0.5, -numpy.inf)
    powers = numpy.exp(scores - scores.max(-1, keepdims=True))
    shares = powers / powers.sum(-1, keepdims=True)
    shares = numpy.where(numpy.isnan(shares), numpy.float32(0), shares)
    return (shares @ v).swapaxes(0, 1)


def _given() -> dict[str, Any]:
    random = np.random.default_rng(0)
    given = {n: random.standard_normal(s).astype(np.float32) for n, s in _SIZES.items()}
    return {**given, "mask": random.random((5, 7)) > 0.4}


def _rewritten(function: Any, given: dict[str, Any]) -> Any:
    """The module after the pass; call within an `ir.Context`."""
    text = jax.jit(function).lower(*given.values()).as_text()
    module = parse_stablehlo(text, ir.Context.current)
    InlineCalls().run(module)
    Canonicalise().run(module)
    return module, NanShares().run(module)


@pytest.mark.parametrize(
    ("name", "place", "number"),
    [
        ("mask", (3,), False),
        ("q", (1, 2, 3), np.nan),
        ("q", (1, 2, 3), np.inf),
        ("k", (0, 1, 3), np.nan),
        ("v", (0, 1, 3), np.nan),
        ("v", (1, 6, 0), -np.inf),
    ],
)
def test_whatever_is_nan_becomes_what_it_did(name: str, place: Any, number: float) -> None:
    given = _given()
    given["mask"][2] = False  # a query without a key
    given[name][place] = number
    with ir.Context(), np.errstate(all="ignore"):
        module, count = _rewritten(_attention, given)
        assert count == 1
        products = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]
        (attention,) = [found for op in products if (found := read_attention(op)) is not None]
        assert attention.safe
        (got,) = Interpreter(module).call("main", list(given.values()))
        wanted = _attention(**given, numpy=np)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert name == "v" or not wanted[2].any()


def test_other_choices_stay() -> None:
    def chosen(q: Any, k: Any, v: Any, mask: Any) -> Any:
        shares = jax.nn.softmax(q @ k.swapaxes(1, 2), -1)
        return jnp.where(mask, jnp.float32(0), shares) @ v

    with ir.Context():
        assert _rewritten(chosen, _given())[1] == 0
