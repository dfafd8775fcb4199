"""Packages that are signed: no file of theirs can change, go or come."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from edgec.packaging import PackageOptions
from edgec.packaging.making import make_package
from edgec.runtime import load
from edgec.runtime.errors import Untrusted
from edgec.runtime.public_key import public_key
from edgec.runtime.seal import SEAL_FILE
from edgec.runtime.sealed_folder import check_folder
from edgec.signing import PrivateKey, sign_package
from tests.signing.conftest import flipped

Keys = tuple[PrivateKey, PrivateKey]
PROGRAM = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
X = np.array([1, 2, 3], np.float32)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package in C for this machine."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "twice.mlir").write_text(PROGRAM)
    options = PackageOptions(targets=("cpu:host",), prove=False, embed=False)
    make_package(folder / "twice.mlir", "c", folder / "made", options)
    shutil.rmtree(folder / "made" / "edgert")  # a megabyte that would be hashed for every bit
    return folder / "made"


@pytest.fixture
def signed(package: Path, keys: Keys, tmp_path: Path) -> Path:
    sign_package(package, keys[0], tmp_path / "signed")
    return tmp_path / "signed"


def test_a_signed_package_is_loaded_by_its_key(signed: Path, package: Path, keys: Keys) -> None:
    files = [file for file in signed.rglob("*") if file.is_file()]
    assert check_folder(signed, keys[0].public) == len(files) - 1
    with load(signed, key=keys[0].public) as module:
        np.testing.assert_array_equal(module.main(X), 2 * X)
    with load(signed) as module:  # the manifest knows the modules' new hashes
        np.testing.assert_array_equal(module.main(X), 2 * X)
    with pytest.raises(Untrusted, match="another key"):
        load(signed, key=keys[1].public)
    with pytest.raises(Untrusted, match="it is not signed"):
        load(package, key=keys[0].public)


def test_a_package_can_be_signed_where_it_is_and_again(
    signed: Path, keys: Keys, tmp_path: Path
) -> None:
    before = {file: file.read_bytes() for file in signed.rglob("*") if file.is_file()}
    sign_package(signed, keys[1])
    check_folder(signed, keys[1].public)
    sign_package(signed, keys[0])
    assert {file: file.read_bytes() for file in signed.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("change", ["added", "removed", "changed", "linked"])
def test_a_file_that_is_not_as_it_was_is_named(change: str, signed: Path, keys: Keys) -> None:
    readme = signed / "README.md"
    if change == "added":
        (signed / "modules" / "more.vmfb").write_bytes(b"")
        expected = r"modules/more\.vmfb is new since"
    elif change == "removed":
        readme.unlink()
        expected = r"README\.md is missing"
    elif change == "changed":
        readme.write_text(readme.read_text() + " ")
        expected = r"README\.md has changed"
    else:
        (signed / "link").symlink_to(readme)
        expected = "link is neither a file nor a folder"
    with pytest.raises(Untrusted, match=expected):
        check_folder(signed, keys[0].public)


def test_a_manifest_that_was_changed_is_refused(signed: Path, keys: Keys) -> None:
    manifest = signed / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema": 1', '"schema":  1'))
    with pytest.raises(Untrusted, match=r"manifest\.json is not trusted"):
        load(signed, key=keys[0].public)


def test_the_list_of_another_package_is_refused(signed: Path, keys: Keys, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(signed, other)
    (other / "README.md").write_text("another release")
    sign_package(other, keys[0])
    (signed / SEAL_FILE).write_bytes((other / SEAL_FILE).read_bytes())
    with pytest.raises(Untrusted, match=r"README\.md has changed"):
        check_folder(signed, keys[0].public)


def _refuses_flips(signed: Path, key: bytes, count: int, seed: int) -> None:
    files = sorted(file for file in signed.rglob("*") if file.is_file())
    starts = np.cumsum([0, *(file.stat().st_size for file in files)])
    for bit in np.random.default_rng(seed).integers(0, 8 * starts[-1], count):
        index = int(np.searchsorted(starts, bit // 8, side="right")) - 1
        data = files[index].read_bytes()
        files[index].write_bytes(flipped(data, int(bit - 8 * starts[index])))
        with pytest.raises(Untrusted):
            check_folder(signed, key)
        files[index].write_bytes(data)


def test_a_bit_that_is_flipped_in_any_file_is_refused(signed: Path, keys: Keys) -> None:
    _refuses_flips(signed, keys[0].public, 40, 1)


@pytest.mark.slow
def test_ten_thousand_flipped_bits_are_refused(signed: Path, keys: Keys) -> None:
    _refuses_flips(signed, keys[0].public, 10_000, 2)


def test_a_public_key_is_taken_as_it_is_kept(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = keys[0].public
    pem = keys[0].held.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "one.pub").write_bytes(pem)
    monkeypatch.setenv("ONE", pem.decode())
    for given in (key, key.hex(), tmp_path / "one.pub", "env:ONE"):
        assert public_key(given) == key
