"""Modules that are signed: what changes them is refused, whoever looks, before it is believed."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Module, load
from edgec.runtime.edgert import EdgertModule
from edgec.runtime.errors import Untrusted
from edgec.runtime.seal import PACKAGE, check_seal, check_weights, find_seal, statement
from edgec.signing import PrivateKey, sign_module
from edgec.signing.modules import sealed
from tests.signing.conftest import V, W, X, flipped

Keys = tuple[PrivateKey, PrivateKey]


@pytest.mark.parametrize("device", ["edgert://cpu", "local-task"])
def test_a_signed_module_answers_as_it_did(device: str, signed: Path, keys: Keys) -> None:
    for key in (None, keys[0].public):
        with load(signed, device=device, key=key) as module:
            np.testing.assert_allclose(module.main(X), X @ W, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(module.itself(), V)


def test_another_library_finds_the_signature_right(signed: Path, keys: Keys) -> None:
    data = signed.read_bytes()
    seal = find_seal(data)
    assert seal is not None
    keys[0].held.public_key().verify(seal.signature, statement(seal))
    assert hashlib.sha512(data[: seal.content_size]).digest() == seal.content_hash


def test_a_signed_module_is_an_archive_still(signed: Path) -> None:
    with zipfile.ZipFile(signed) as archive:
        assert archive.testzip() is None
        assert archive.comment.endswith(b"edgeseal")


def test_what_is_not_signed_is_refused(copied: Path, keys: Keys) -> None:
    with pytest.raises(Untrusted, match="not trusted: it is not signed") as refused:
        load(copied, key=keys[0].public)
    assert refused.value.exit_code == 32
    with pytest.raises(Untrusted, match="not signed"):
        EdgertModule(copied, key=keys[0].public)


def test_what_another_signed_is_refused(signed: Path, keys: Keys) -> None:
    with pytest.raises(Untrusted, match="another key signed it"):
        load(signed, key=keys[1].public)


def test_a_forged_key_name_does_not_help(signed: Path, keys: Keys) -> None:
    data = signed.read_bytes()
    seal = find_seal(data)
    assert seal is not None
    forged = replace(seal, key_name=keys[1].name).to_bytes()
    with pytest.raises(Untrusted, match="has changed since"):
        check_seal(data[: seal.content_size] + forged, "module", keys[1].public, "it")


def test_signing_again_takes_the_old_seal_off(signed: Path, keys: Keys) -> None:
    once = signed.read_bytes()
    sign_module(signed, keys[1], signed)
    with pytest.raises(Untrusted):
        Module.read(signed, key=keys[0].public)
    sign_module(signed, keys[0], signed)
    assert signed.read_bytes() == once


def test_the_signature_of_another_module_is_refused(signed: Path, keys: Keys) -> None:
    data = signed.read_bytes()
    seal = find_seal(data)
    assert seal is not None
    other = flipped(data[: seal.content_size], 8 * 3000)
    with pytest.raises(Untrusted, match="it has changed since"):
        check_seal(other + seal.to_bytes(), "module", keys[0].public, "it")


def test_a_signature_for_something_else_is_refused(copied: Path, keys: Keys) -> None:
    content = copied.read_bytes()
    seal = find_seal(_signed_bytes(copied, keys[0]))
    assert seal is not None
    copied.write_bytes(sealed(content, replace(seal, kind=PACKAGE, leaves=b""), keys[0]))
    with pytest.raises(Untrusted, match="for something else"):
        load(copied, key=keys[0].public)


def _signed_bytes(path: Path, key: PrivateKey) -> bytes:
    other = path.with_name("other.vmfb")
    sign_module(path, key, other)
    return other.read_bytes()


def test_what_is_cut_short_is_refused(signed: Path, keys: Keys) -> None:
    data = signed.read_bytes()
    for size in (0, 1, 100, 271, 272, len(data) // 2, len(data) - 273, len(data) - 1):
        with pytest.raises(Untrusted):
            EdgertModule(data[:size], key=keys[0].public)
        with pytest.raises(Untrusted):
            EdgertModule(data[len(data) - size :], key=keys[0].public)


def _refuses_flips(signed: Path, key: bytes, count: int, seed: int) -> None:
    """Flip single bits all over a module and its weights; both readers refuse each."""
    weights = signed.with_suffix(".safetensors")
    module, file = signed.read_bytes(), weights.read_bytes()
    seal = check_seal(module, "module", key, "it")
    bits = np.random.default_rng(seed).integers(0, 8 * (len(module) + len(file)), count)
    for bit in map(int, bits):
        if bit < 8 * len(module):
            with pytest.raises(Untrusted):
                EdgertModule(flipped(module, bit), key=key)
        else:
            weights.write_bytes(flipped(file, bit - 8 * len(module)))
            with pytest.raises(Untrusted):
                check_weights(weights, seal)
    weights.write_bytes(file)


def test_a_bit_that_is_flipped_anywhere_is_refused(signed: Path, keys: Keys) -> None:
    _refuses_flips(signed, keys[0].public, 200, 1)


def test_a_bit_that_is_flipped_in_the_seal_is_refused(signed: Path, keys: Keys) -> None:
    data = signed.read_bytes()
    seal = find_seal(data)
    assert seal is not None
    for bit in range(8 * seal.content_size, 8 * len(data), 7):
        with pytest.raises(Untrusted):
            EdgertModule(flipped(data, bit), key=keys[0].public)


@pytest.mark.slow
def test_ten_thousand_flipped_bits_are_refused(signed: Path, keys: Keys) -> None:
    _refuses_flips(signed, keys[0].public, 10_000, 2)


def _with_changed_weights(signed: Path, bit: int) -> None:
    weights = signed.with_suffix(".safetensors")
    weights.write_bytes(flipped(weights.read_bytes(), bit))


def test_weights_are_compared_when_they_are_used(signed: Path, keys: Keys) -> None:
    size = signed.with_suffix(".safetensors").stat().st_size
    _with_changed_weights(signed, 8 * (size - 5))  # in the last page, which `main` does not read
    with load(signed, device="edgert://cpu", key=keys[0].public) as module:
        np.testing.assert_allclose(module.main(X), X @ W, rtol=1e-4, atol=1e-5)
        with pytest.raises(Untrusted, match="weights have changed since they were signed"):
            module.other(V)
        with pytest.raises(Untrusted, match="weights have changed since they were signed"):
            module.itself()
    with load(signed, device="edgert://cpu") as module:  # nobody asked
        assert not np.array_equal(module.itself(), V)


def test_other_runtimes_compare_weights_when_they_load(signed: Path, keys: Keys) -> None:
    _with_changed_weights(signed, 8 * 300_000)
    with pytest.raises(Untrusted, match="not the weights that were signed"):
        load(signed, device="local-task", key=keys[0].public)


def test_names_of_weights_are_compared_at_once(signed: Path, keys: Keys) -> None:
    weights = signed.with_suffix(".safetensors")
    data = weights.read_bytes()
    for old, new in ((b'"w"', b'"?"'), (b'"v"', b'"w"'), (b'"?"', b'"v"')):
        data = data.replace(old, new, 1)
    weights.write_bytes(data)
    with pytest.raises(Untrusted, match="weights have changed"):
        load(signed, device="edgert://cpu", key=keys[0].public)


def test_weights_of_another_size_are_refused(signed: Path, keys: Keys) -> None:
    weights = signed.with_suffix(".safetensors")
    weights.write_bytes(weights.read_bytes() + b"\0")
    for device in ("edgert://cpu", "local-task"):
        with pytest.raises(Untrusted, match="weights"):
            load(signed, device=device, key=keys[0].public)
