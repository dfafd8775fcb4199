"""The page that names photographs: built by its command, given one, and used offline."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.web.chromium import WEBGPU, Chromium, Page, serve
from tests.js.node import need_chromium, write_runtime_once

pytestmark = pytest.mark.slow  # SwiftShader takes seconds for a photograph

# A photograph made in the page: a sun over water, as a file that somebody chose.
_CHOOSE = """(async () => {
  const canvas = new OffscreenCanvas(320, 240);
  const context = canvas.getContext('2d');
  context.fillStyle = '#f97316'; context.fillRect(0, 0, 320, 120);
  context.fillStyle = '#1d4ed8'; context.fillRect(0, 120, 320, 120);
  context.fillStyle = '#fef3c7'; context.beginPath();
  context.arc(200, 90, 40, 0, 7); context.fill();
  const given = new DataTransfer();
  given.items.add(new File([await canvas.convertToBlob()], 'sun.png', { type: 'image/png' }));
  const file = document.getElementById('file');
  file.files = given.files;
  file.dispatchEvent(new Event('change'));
  return true;
})()"""
_NAMED = """(async () => {
  while (!document.getElementById('time').textContent.endsWith(' ms'))
    await new Promise((done) => setTimeout(done, 50));
  return Array.from(document.querySelectorAll('#bars li'), (row) => [
    row.querySelector('b').textContent, row.querySelector('em').textContent]);
})()"""


@pytest.fixture
def site(
    command,
    root: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    need_chromium()
    monkeypatch.setenv("WEB_PHOTOS_WEIGHTS", "none")
    write_runtime_once(tmp_path_factory.mktemp("warm"))  # one process at a time compiles edgert
    command("python", root / "samples" / "web_photos" / "build.py", tmp_path / "site")
    return tmp_path / "site"


def test_a_photograph_is_named_on_the_gpu_and_without_one_and_offline(
    site: Path, tmp_path: Path
) -> None:
    with np.load(tmp_path / "site.golden.npz") as golden:
        photo, shares = golden["0/in/0"], golden["0/out/0"]
    with serve(site) as address, Chromium(*WEBGPU) as browser:
        page = browser.open(f"{address}/?device=gpu")
        assert page.wait("document.body?.dataset.state", timeout=300) == "ready"
        assert _text(page, "state") == ""
        assert "WebGPU" in _text(page, "engine")
        on_gpu = _name(page)
    with Chromium() as browser:
        with serve(site) as address:
            page = browser.open(f"{address}/")
            assert page.wait("document.body?.dataset.state", timeout=300) == "ready"
            assert _text(page, "state").startswith("Not used: webgpu: ")
            assert "WebAssembly" in _text(page, "engine")
            assert [kind for kind, _ in _name(page)] == [kind for kind, _ in on_gpu]
            found = page.run(
                "import('./photos.js').then(async ({ load }) => Array.from((await (await load())"
                f".main({{ photo: {json.dumps(np.round(photo, 3).tolist())} }})).shares))"
            )
            np.testing.assert_allclose(found, shares, atol=1e-6, rtol=1e-3)  # Keras' own
            page.wait("document.body.dataset.offline === 'ready'")
            page.close()
        page = browser.open(f"{address}/")  # the server is gone
        assert page.wait("document.body?.dataset.state", timeout=300) == "ready"
        assert _name(page) == on_gpu


def _name(page: Page) -> list[list[str]]:
    """The kinds that a chosen photograph is said to show, and how sure."""
    page.run(_CHOOSE)
    named: list[list[str]] = page.run(_NAMED, timeout=300)
    assert _text(page, "time").endswith(" ms")
    assert len(named) == 5
    assert all(kind.startswith("kind ") for kind, _ in named)
    return named


def _text(page: Page, name: str) -> str:
    text: str = page.run(f"document.getElementById('{name}').textContent")
    return text
