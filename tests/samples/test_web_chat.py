"""The page in which a language model answers: built by its command, asked, and used offline."""

import json
from pathlib import Path

import pytest

from benchmarks.web.chromium import Chromium, Page, serve
from edgec.exporters.from_transformers.export import export_opened
from edgec.runtime.text import TextModel
from edgec.toolchain import CompileOptions, compile
from tests.exporters import language_models as tiny
from tests.js.node import need_chromium, write_runtime_once

pytestmark = pytest.mark.slow  # a package of a language model is three compiles


def test_a_question_is_answered_in_the_page_also_offline(
    command, root: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    need_chromium()
    warm = tmp_path_factory.mktemp("warm")
    write_runtime_once(warm, text=True)  # one process at a time compiles edgert
    program = export_opened(
        tiny.model("llama"),
        tiny.tokenizer(),
        context=120,
        prefill=(8,),
        external_weights=tmp_path / "tiny.safetensors",
        folder=tmp_path,
    )
    program.save(tmp_path / "tiny.mlirbc")
    options = CompileOptions(output=tmp_path / "tiny.vmfb", level=1, check=False)
    compile(tmp_path / "tiny.mlirbc", "cpu", options)
    with TextModel(tmp_path / "tiny.vmfb") as model:
        first = model.chat("Zoë → 🙂?", limit=20).whole()
    build = root / "samples" / "web_chat" / "build.py"
    command("python", build, tmp_path / "tiny.mlirbc", tmp_path / "site")
    with Chromium() as browser:
        with serve(tmp_path / "site") as address:
            page = browser.open(f"{address}/?device=wasm&limit=20")
            assert page.wait("document.body?.dataset.state", timeout=300) == "ready"
            assert "WebAssembly" in page.run("document.getElementById('engine').textContent")
            assert _answered(page, "Zoë → 🙂?") == first
            assert float(page.run("document.getElementById('rate').textContent")) > 0
            page.wait("document.body.dataset.offline === 'ready'")
            page.close()
        page = browser.open(f"{address}/?device=wasm&limit=20")  # the server is gone
        assert page.wait("document.body?.dataset.state", timeout=300) == "ready"
        assert _answered(page, "Zoë → 🙂?") == first


def _answered(page: Page, question: str) -> str:
    page.run(
        f"document.getElementById('question').value = {json.dumps(question)},"
        "document.getElementById('ask').requestSubmit()"
    )
    page.wait("document.body.dataset.finish", timeout=120)
    return page.run("[...document.querySelectorAll('main .assistant')].at(-1).textContent")
