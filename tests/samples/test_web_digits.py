"""The page in which a drawn digit is read: built by its command, drawn on, and used offline."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.web.chromium import WEBGPU, Chromium, serve
from benchmarks.web.screenshot import draw
from tests.js.node import need_chromium, write_runtime_once


@pytest.fixture
def site(command, root: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_chromium()
    write_runtime_once(tmp_path_factory.mktemp("warm"))  # one process at a time compiles edgert
    command("python", root / "samples" / "web_digits" / "build.py", tmp_path / "site")
    return tmp_path / "site"


def test_digits_are_read_as_they_are_drawn_also_offline(site: Path, tmp_path: Path) -> None:
    _check_what_is_kept(site)
    with np.load(tmp_path / "site.golden.npz") as golden:
        image, logits = golden["0/in/0"], golden["0/out/0"]
    with serve(site) as address, Chromium(*WEBGPU) as browser:
        page = browser.open(f"{address}/?device=gpu")
        page.wait("document.body?.dataset.state")
        assert page.run("document.getElementById('state').textContent") == ""
        assert "WebGPU" in page.run("document.getElementById('engine').textContent")
        draw(page, 4)
        assert page.wait(_SETTLED) == "4"
    with Chromium() as browser:
        with serve(site) as address:
            page = browser.open(f"{address}/")
            page.wait("document.body?.dataset.state")
            assert page.run("document.body.dataset.state") == "ready"
            said = page.run("document.getElementById('state').textContent")
            assert said.startswith("Not used: webgpu: ")
            found = page.run(
                "import('./digits.js').then(async ({ load }) => Array.from((await (await load())"
                f".main({{ image: {json.dumps(image.tolist())} }})).logits))"
            )
            np.testing.assert_allclose(found, logits, atol=1e-5, rtol=1e-5)  # JAX's own scores
            read = {}
            for digit in range(10):
                page.run("document.getElementById('clear').click()")
                page.wait("document.getElementById('clear').disabled")
                draw(page, digit)
                page.wait("document.body.classList.contains('drawn')")
                read[digit] = page.wait(_SETTLED)
            assert sum(str(digit) == text for digit, text in read.items()) >= 9, read
            bars = page.run(
                "Array.from(document.querySelectorAll('#bars em'), (bar) =>"
                " parseFloat(bar.textContent))"
            )
            assert sum(bars) == pytest.approx(100, abs=1)
            assert page.run("document.getElementById('time').textContent").endswith(" ms")
            page.wait("document.body.dataset.offline === 'ready'")
            page.close()
        # The server is gone.
        page = browser.open(f"{address}/")
        page.wait("document.body?.dataset.state")
        assert page.run("document.body.dataset.state") == "ready"
        draw(page, 4)
        assert page.wait(_SETTLED) == "4"


# The answer, two frames after the last event, when all readings have ended.
_SETTLED = """(async () => {
  for (let i = 0; i < 2; ++i) await new Promise((done) => requestAnimationFrame(done));
  while (document.body.dataset.reading) await new Promise((done) => setTimeout(done, 20));
  return document.getElementById('digit').value;
})()"""


def _check_what_is_kept(site: Path) -> None:
    """The service worker keeps what the page loads, but for what edgec-runtime keeps itself."""
    text = (site / "sw.js").read_text()
    kept = json.loads(text.split("const FILES = ")[1].split(";\n")[0])
    assert "@" not in text
    for name in ("app.js", "ink.js", "style.css", "digits.js", "edgec-runtime/edgert.wasm"):
        assert name in kept
    assert all((site / name).exists() for name in kept)
    assert not any(name.endswith((".vmfb", ".safetensors")) for name in kept)
