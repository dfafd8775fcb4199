"""devices, targets, doctor and cache."""

import importlib.metadata
from collections.abc import Iterator

import pytest

from edgec.cli import doctor_checks
from edgec.cli.doctor_checks import CHECKS, Finding, Verdict
from edgec.runtime import DeviceStatus, devices
from edgec.targets import PRESETS, catalogue
from edgec.toolchain import Cache


def test_devices_are_those_of_the_runtime(edgec) -> None:
    done = edgec("devices")
    assert done.code == 0
    found = edgec("devices", "--json").json["devices"]
    assert found == [s.to_json() for s in devices()]
    for status in found:
        assert status["uri"] in done.out
        assert status["name"] if status["usable"] else status["reason"]
        assert (status["hint"] or status["name"]) in done.out


def test_targets_are_the_catalogue(edgec) -> None:
    value = edgec("targets", "--json").json
    assert [t["name"] for t in value["targets"]] == [t.name for t in catalogue()]
    assert value["presets"] == {name: list(members) for name, members in PRESETS.items()}
    done = edgec("targets")
    assert all(t.summary in done.out for t in catalogue())


def test_one_target_is_told_in_full(edgec) -> None:
    done = edgec("targets", "cuda:hopper")
    assert done.out.startswith("cuda:sm_90: NVIDIA Hopper")
    assert "--iree-cuda-target=sm_89" in done.out
    value = edgec("targets", "cuda:sm_90", "--json").json
    assert value["target"]["gpu"]["target"] == "sm_89"
    assert "--iree-cuda-target=sm_89" in value["flags"]


def test_presets_and_beginnings_of_names_list_their_targets(edgec) -> None:
    android = edgec("targets", "android", "--json").json
    assert [t["name"] for t in android["targets"]] == list(PRESETS["android"])
    vulkan = edgec("targets", "vulkan:", "--json").json["targets"]
    assert len(vulkan) > 3
    assert all(t["name"].startswith("vulkan:") for t in vulkan)


@pytest.mark.parametrize("name", ["nope", "nope:", "vulkan:nope"])
def test_an_unknown_target_is_an_error_of_its_own(edgec, name: str) -> None:
    done = edgec("targets", name)
    assert done.code == 20
    assert "edgec targets" in done.err


def test_this_environment_is_sound(edgec) -> None:
    done = edgec("doctor", "--json")
    findings = {f["name"]: f for f in done.json["findings"]}
    faults = [f for f in done.json["findings"] if f["verdict"] == "fault"]
    assert (done.code, faults) == (0, [])
    assert done.json["sound"] is True
    assert findings["compile and run"]["verdict"] == "ok"
    assert findings["device edgert://cpu"]["verdict"] == "ok"
    assert findings["device local-task"]["verdict"] == "ok"
    assert findings["numpy"]["detail"] == importlib.metadata.version("numpy")
    assert all(f["mend"] for f in done.json["findings"] if f["verdict"] != "ok")
    assert {f"edgec[{extra}]" for extra in ("jax", "torch", "tensorflow", "onnx")} <= set(findings)


def test_a_fault_is_exit_code_1_with_the_command_that_mends_it(
    edgec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Iterator[Finding]:
        yield Finding(name="x", verdict=Verdict.FAULT, detail="gone", mend="pip install x")

    monkeypatch.setattr(doctor_checks, "CHECKS", {"x": broken})
    done = edgec("doctor")
    assert done.code == 1
    assert "pip install x" in done.out
    assert edgec("doctor", "--json").json["sound"] is False


def _versions(monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None]) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        found = changed.get(name, real(name) if name not in changed else None)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(doctor_checks.metadata, "version", version)


def test_a_compiler_and_a_runtime_that_differ_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    _versions(monkeypatch, {"iree-base-runtime": "3.12.0"})
    findings = {f.name: f for f in CHECKS["packages"]()}
    assert findings["iree"].verdict is Verdict.FAULT
    assert "3.12.0 do not go together" in findings["iree"].detail
    assert "iree-base-runtime==3.13.0" in findings["iree"].mend
    assert findings["iree-base-runtime"].verdict is Verdict.FAULT


def test_missing_and_old_packages_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _versions(monkeypatch, {"rich": None, "jax": None, "torch": "2.0.0"})
    core = {f.name: f for f in CHECKS["packages"]()}
    assert core["rich"].verdict is Verdict.FAULT
    assert core["rich"].mend.startswith('pip install "rich')
    extras = {f.name: f for f in CHECKS["frameworks"]()}
    assert extras["edgec[jax]"].verdict is Verdict.MISSING
    assert "jax: not installed" in extras["edgec[jax]"].detail
    assert "torch: 2.0.0 is installed" in extras["edgec[torch]"].detail
    assert extras["edgec[torch]"].mend == 'pip install "edgec[torch]"'


def test_devices_that_are_not_here_are_missing_and_a_cpu_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(driver: str) -> DeviceStatus:
        return DeviceStatus(
            uri=driver, driver=driver, name="", usable=False, reason="none", hint="mend"
        )

    monkeypatch.setattr("edgec.runtime.devices", lambda: (absent("local-task"), absent("vulkan")))
    assert [f.verdict for f in CHECKS["devices"]()] == [Verdict.FAULT, Verdict.MISSING]


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "file"))
    (finding,) = CHECKS["cache"]()
    assert finding.verdict is Verdict.MISSING
    assert "EDGEC_CACHE_DIR" in finding.mend


def test_the_cache_is_measured_and_emptied(
    edgec, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "own"))
    assert edgec("cache", "--json").json["entries"] == 0
    Cache.default().put("ab12", b"12345", {})
    value = edgec("cache", "--json").json
    assert value["folder"] == str(tmp_path / "own")
    assert value["entries"] == 1
    assert value["bytes"] > 5
    cleared = edgec("cache", "--clear", "--json").json
    assert (cleared["entries"], cleared["removed"]["entries"]) == (0, 1)
    assert Cache.default().get("ab12") is None
    assert edgec("cache", "--clear").code == 0
