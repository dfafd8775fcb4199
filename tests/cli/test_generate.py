"""`edgec generate` and `edgec chat`, with a tiny model on the whole road from its folder."""

import io
import json
import re
from pathlib import Path

import pytest

from edgec.cli.layout import printable
from edgec.cli.next_step import next_step
from edgec.runtime import Module
from edgec.runtime.errors import FileError, InputError, ModuleError, Untrusted, UsageError
from edgec.targets import find
from tests.cli.conftest import Edgec
from tests.exporters import language_models as tiny


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from edgec.cli.main import execute

    folder = tmp_path_factory.mktemp("generate")
    source = tiny.save("qwen3", folder / "tiny-1.5b", num_hidden_layers=1)
    program, module = folder / "tiny.mlirbc", folder / "tiny.vmfb"
    flags = ["--context=150", "--prefill=8"]
    assert execute(["export", f"hf:{source}", "-o", str(program), *flags]) == 0
    assert (folder / "tiny.safetensors").exists()
    assert execute(["compile", str(program), "-O1", "-o", str(module)]) == 0
    return module


def test_what_comes_next_is_a_conversation(edgec: Edgec, path: Path) -> None:
    module, program = Module.read(path), path.with_suffix(".mlirbc")
    following = next_step(module, find("cpu"), program, str(program))
    assert following == f"edgec chat {path}"
    lines = edgec("inspect", program).out.splitlines()
    assert sum(line.startswith("state keys_") for line in lines) == 1


def test_text_is_written_and_told_as_json(edgec: Edgec, path: Path) -> None:
    plain = edgec("generate", path, "What?", "--limit=9")
    assert plain.code == 0
    told = edgec("generate", path, "What?", "--limit=9", "--json").json
    shown = "\t".join(printable(part) for part in told["text"].split("\t"))
    assert plain.out == shown + "\n"
    assert told["finish"] in ("limit", "stop")
    assert len(told["tokens"]) == told["stats"]["tokens"] <= 9
    raw = edgec("generate", path, "What?", "--limit=9", "--raw", "--json").json
    assert raw["stats"]["prompt_tokens"] < told["stats"]["prompt_tokens"]
    drawn = ["--temperature=1.3", "--top-k=40", "--top-p=0.9", "--min-p=0.01", "--seed=5"]
    one, two = (edgec("generate", path, "What?", "--limit=9", *drawn).out for _ in range(2))
    assert one == two


def test_an_answer_is_what_a_schema_says(edgec: Edgec, path: Path, tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    schema, grammar = tmp_path / "is.json", tmp_path / "is.lark"
    one = {"properties": {"is": {"enum": [1, 2]}}, "required": ["is"]}
    schema.write_text(json.dumps({"type": "object", "additionalProperties": False, **one}))
    grammar.write_text('start: "yes" | "no"')
    said = json.loads(edgec("generate", path, "What?", f"--json-schema={schema}", "-n", "40").out)
    assert said["is"] in (1, 2)
    assert edgec("generate", path, "What?", f"--grammar={grammar}").out in ("yes\n", "no\n")
    done = edgec("generate", path, "What?", "--pattern=[ab]{3}", "--json").json
    assert re.fullmatch("[ab]{3}", done["text"])
    assert done["finish"] == "stop"
    both = edgec("generate", path, "What?", "--pattern=a", f"--grammar={grammar}")
    assert both.code == UsageError.exit_code
    missing = edgec("generate", path, "What?", f"--json-schema={tmp_path / 'none.json'}")
    assert missing.code == FileError.exit_code
    schema.write_text("[")
    broken = edgec("generate", path, "What?", f"--json-schema={schema}")
    assert broken.code == InputError.exit_code


def test_text_is_written_by_what_a_key_signed_alone(
    edgec: Edgec, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    for name in ("one", "other"):
        assert edgec("keygen", "-o", tmp_path / f"{name}.key").code == 0
    signed, weights = tmp_path / "signed.vmfb", tmp_path / "tiny.safetensors"
    weights.write_bytes(path.with_suffix(".safetensors").read_bytes())
    assert edgec("sign", path, f"--key={tmp_path / 'one.key'}", "-o", signed).code == 0
    plain = edgec("generate", path, "What?", "--limit=5").out
    own, other = (f"--key={tmp_path / name}.pub" for name in ("one", "other"))
    done = edgec("generate", signed, "What?", "--limit=5", own)
    assert (done.code, done.out) == (0, plain)
    for verb, words in (("generate", ["What?"]), ("chat", [])):
        for module, key in ((signed, other), (path, own)):
            monkeypatch.setattr("sys.stdin", io.StringIO("What?\n"))
            refused = edgec(verb, module, *words, "--limit=5", key)
            assert (refused.code, refused.out) == (Untrusted.exit_code, "")
    monkeypatch.setattr("sys.stdin", io.StringIO("What?\n"))
    assert edgec("chat", signed, "--limit=5", own).code == 0
    data = bytearray(weights.read_bytes())
    data[-100] ^= 1
    weights.write_bytes(data)
    assert edgec("generate", signed, "What?", "--limit=5", own).code == Untrusted.exit_code


def test_a_conversation_is_answered_line_by_line(
    edgec: Edgec, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("One?\n\nTwo?\n/stats\n/reset\nOne?\n/quit\n3\n"))
    done = edgec("chat", path, "--limit=4", "--system=Short.")
    assert done.code == 0
    assert "tokens/s" in done.out
    monkeypatch.setattr("sys.stdin", io.StringIO("One?\nTwo?\n"))
    told = edgec("chat", path, "--limit=4", "--json").json
    assert told["answers"] == 2
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"] * 2
    assert told["stats"]["reused_tokens"] > 0


def test_a_conversation_that_outgrows_the_context_goes_on_after_a_reset(
    edgec: Edgec, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{'a' * 200}\n/reset\nShort?\n"))
    done = edgec("chat", path, "--limit=4")
    assert done.code == 0
    assert "/reset begins anew" in done.err
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{'a' * 200}\n"))
    done = edgec("chat", path, "--limit=4", "--when-full=slide")
    assert "/reset" not in done.err
    assert edgec("generate", path, "What?", "--when-full=burst").code == UsageError.exit_code


def test_a_question_that_is_no_utf8_is_told_and_the_next_is_answered(
    edgec: Edgec, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("One \udcff?\nTwo?\n"))
    done = edgec("chat", path, "--limit=4", "--json")
    assert "no UTF-8 at its character 4: give text in UTF-8" in done.err
    assert "/reset" not in done.err
    assert [message["content"] for message in done.json["messages"]][:1] == ["Two?"]


def test_a_schema_that_is_no_utf8_is_told_with_its_place(
    edgec: Edgec, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "schema.json").write_bytes(b'{"type": "\xff"}')
    done = edgec("generate", path, "What?", f"--json-schema={tmp_path / 'schema.json'}")
    assert done.code == FileError.exit_code
    assert "no UTF-8 at its byte 10" in done.err


def test_what_cannot_be_answered_is_an_error(edgec: Edgec, path: Path, module: Path) -> None:
    done = edgec("generate", path, "a" * 200)
    assert done.code == InputError.exit_code
    assert "the context of" in done.err
    assert edgec("generate", path, "").code == InputError.exit_code
    done = edgec("generate", path, "abc \udcff")
    assert done.code == InputError.exit_code
    assert "no UTF-8 at its character 4" in done.err
    done = edgec("generate", module, "What?")
    assert done.code == ModuleError.exit_code
    assert "holds no language model" in done.err
