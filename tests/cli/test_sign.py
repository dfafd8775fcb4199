import stat
from pathlib import Path

import pytest

pytest.importorskip("cryptography")


@pytest.fixture
def key(edgec, tmp_path: Path) -> Path:
    assert edgec("keygen", "-o", tmp_path / "one.key").code == 0
    return tmp_path / "one.key"


def test_a_private_key_is_its_owners_alone_and_never_written_over(edgec, key: Path) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    done = edgec("keygen", "-o", key)
    assert done.code == 4
    assert key.read_bytes() == before


def test_a_signed_module_is_verified_by_its_key(edgec, module: Path, key: Path) -> None:
    done = edgec("sign", module, f"--key={key}", "-o", "signed.vmfb", "--json")
    assert (done.code, done.json["kind"]) == (0, "module")
    done = edgec("verify", "signed.vmfb", f"--key={key.with_suffix('.pub')}")
    assert done.code == 0
    assert done.out.endswith("verdict: signed\n")


def test_a_key_may_come_from_the_environment(
    edgec, module: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_KEY", key.read_text())
    assert edgec("sign", module, "--key=env:SIGNING_KEY", "-o", "signed.vmfb").code == 0
    monkeypatch.setenv("PUBLIC", key.with_suffix(".pub").read_text())
    assert edgec("verify", "signed.vmfb", "--key=env:PUBLIC").code == 0
    done = edgec("sign", module, "--key=env:NO_SUCH", "-o", "more.vmfb")
    assert (done.code, "NO_SUCH" in done.err) == (2, True)


def test_what_is_not_signed_is_exit_code_32(edgec, module: Path, key: Path) -> None:
    done = edgec("verify", module, f"--key={key.with_suffix('.pub')}", "--json")
    assert (done.code, done.json["error"]["code"]) == (32, "Untrusted")


def test_a_private_key_is_no_public_one(edgec, module: Path, key: Path) -> None:
    assert edgec("verify", module, f"--key={key}").code == 2
    assert edgec("sign", module, f"--key={key.with_suffix('.pub')}", "-o", "s.vmfb").code == 2


def test_a_folder_asks_for_a_key(edgec, tmp_path: Path) -> None:
    done = edgec("verify", tmp_path)
    assert (done.code, "--key" in done.err) == (2, True)


@pytest.mark.parametrize("verb", ["run", "bench"])
def test_run_and_bench_take_only_what_a_key_signed(
    edgec, module: Path, key: Path, verb: str
) -> None:
    assert edgec("sign", module, f"--key={key}", "-o", "signed.vmfb").code == 0
    public = f"--key={key.with_suffix('.pub')}"
    call = ["--function=scores", "--input=3x4xf32=1"] if verb == "run" else ["--function=scores"]
    more = ["--iterations=2"] if verb == "bench" else []
    assert edgec(verb, "signed.vmfb", public, *call, *more).code == 0
    done = edgec(verb, module, public, *call, *more, "--json")
    assert (done.code, done.json["error"]["code"]) == (32, "Untrusted")
