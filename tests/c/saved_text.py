"""A module by hand that keeps what a language model keeps, and bytes that it could have saved.

Its functions give back what they are given, so a call of any costs nothing: the fuzzer restores
thousands of saved texts a second with it.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from edgec.runtime import DType, TensorSpec
from edgec.runtime.module import (
    IDENTITY_ATTRIBUTE,
    IDENTITY_WIDTH,
    MODULE_ATTRIBUTE,
    TEXT_FORM_ATTRIBUTE,
    Module,
    ModuleFacts,
)
from edgec.runtime.text import saved
from edgec.toolchain.text import text_form
from tests.c.bytecode import Function, Program, ref
from tests.c.tokenizers_of_all_kinds import facts_of

__all__ = ["model", "saved_texts"]

_VIEW = "!hal.buffer_view"
_STATES = (
    TensorSpec(name="tokens", shape=(64,), dtype=DType.I32),
    TensorSpec(name="keys_0", shape=(1, 2, 64, 4), dtype=DType.F32),
    TensorSpec(name="position", shape=(), dtype=DType.I32),
    TensorSpec(name="logits", shape=(5,), dtype=DType.F32),
)


def model() -> bytes:
    """The module."""
    echo = [("block", "start"), ("return", [ref(0)])]
    count = range(len(_STATES))
    get = [("global.load.ref", i, _VIEW, ref(i)) for i in count]
    put = [("global.store.ref", i, _VIEW, ref(i)) for i in count]
    declared = ", ".join(f"%input{i}: {_spelled(spec)}" for i, spec in enumerate(_STATES))
    every = "r" * len(_STATES)
    functions = [
        Function(name="decode", convention="0r_r", body=echo, attributes=_attributes()),
        Function(name="sample", convention="0rrrrrr_r", body=echo),
        Function(name="reset", convention="0r_r", body=echo),
        Function(
            name="prefill_8",
            convention="0rr_r",
            body=[("block", "start"), ("return", [ref(1)])],
        ),
        Function(
            name="edgec_get_state",
            convention=f"0v_{every}",
            body=[("block", "start"), *get, ("return", [ref(i) for i in count])],
        ),
        Function(
            name="edgec_set_state",
            convention=f"0{every}_v",
            body=[("block", "start"), *put, ("return", [])],
            attributes={"iree.abi.declaration": f"sync func @edgec_set_state({declared})"},
        ),
    ]
    return Program(functions=functions).build()


def saved_texts() -> tuple[bytes, ...]:
    """What it could have saved: of no tokens, of some, and of a context that is full."""
    draw = np.random.default_rng(3)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path, file = Path(folder, "model.vmfb"), Path(folder, "text.saved")
        path.write_bytes(model())
        module = Module.read(path)
        for tokens in (0, 5, 64):
            state = {
                spec.name: np.asarray(draw.integers(0, 9, spec.shape), spec.dtype.numpy)
                for spec in _STATES
            }
            saved.write(file, module, state, draw.integers(0, 200, tokens).tolist())
            found.append(file.read_bytes())
    return tuple(found)


def _attributes() -> dict[str, str]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain.decoder = decoders.ByteLevel()
    facts = ModuleFacts(target="cpu", driver="edgert", edgec="0", compiler="0", states=_STATES)
    form = text_form(facts_of(plain, prefill=(8,)))
    return {
        MODULE_ATTRIBUTE: json.dumps(facts.to_json()),
        TEXT_FORM_ATTRIBUTE: form,
        IDENTITY_ATTRIBUTE: "0123456789abcdef" * (IDENTITY_WIDTH // 16),
    }


def _spelled(spec: TensorSpec) -> str:
    return f"tensor<{''.join(f'{size}x' for size in spec.shape)}{spec.dtype.value}>"
