"""Language models of transformers: every token that they write is written by the module, too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgec.exporters import export_source
from edgec.exporters.from_transformers.anew import token_behind
from edgec.exporters.from_transformers.cache import reads_chunks
from edgec.exporters.from_transformers.export import export_opened, facts_of
from edgec.exporters.from_transformers.golden_text import golden_text
from edgec.exporters.from_transformers.stepping import stepping
from edgec.runtime import check_golden, load
from edgec.runtime.errors import FileError, SourceError, UnsupportedOp, UsageError
from edgec.runtime.golden import Golden
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.program import Parameter, Program
from tests.exporters import language_models as tiny

CONTEXT = 160
_QUICK = ("llama", "gemma2", "gemma4_text")
_QUICK_RECURRENT = ("falcon_h1", "mamba", "minimax", "recurrent_gemma")


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow)
        for name in tiny.FAMILIES
    ],
)
def test_chunks_and_single_tokens_give_what_transformers_gives(family: str) -> None:
    model, tokenizer = tiny.model(family), tiny.tokenizer()
    sizes = (16, 200)  # more than any question has, and than the context
    facts = facts_of(model, tokenizer, context=CONTEXT, prefill=sizes)
    entries = {
        entry.name: entry for entry in stepping(model, context=CONTEXT, prefill=sizes).entries
    }
    golden = golden_text(model, tokenizer, facts)
    chosen = set()
    for call in golden.calls:
        with torch.no_grad():
            found = entries[call.signature].function(*map(torch.from_numpy, call.inputs))
        right = {int(call.outputs[0]), *(int(n) for other in call.others for n in other)}
        assert int(found) in right
        chosen.add(int(found))
    assert sum(call.signature == "decode" for call in golden.calls) > 50
    assert {call.signature for call in golden.calls} > {"prefill_16", "prefill_200"}
    assert len(chosen) > 5


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Path]:
    """A model with windows and capped scores, its weights beside it, proved."""
    folder = tmp_path_factory.mktemp("gemma2")
    source = tiny.save("gemma2", folder / "model")
    program = export_source(
        f"hf:{source}",
        context=CONTEXT,
        prefill=(8,),
        external_weights=folder / "model.safetensors",
        folder=folder,
    ).save(folder / "model.mlirbc")
    module = compile(program, "cpu", CompileOptions(output=folder / "model.vmfb", level=1))
    assert module.facts.check.startswith("checked")
    return program, module.path


def test_a_folder_becomes_a_program_with_its_weights_beside_it(
    compiled: tuple[Program, Path],
) -> None:
    program, _ = compiled
    names = [function.signature.name for function in program.info.functions]
    assert names == ["prefill_8", "decode", "sample", "sample_allowed", "reset"]
    assert program.info.weights is not None
    assert "model.layers.1.mlp.down_proj.weight" in program.info.weights.names
    assert _parameters(program, "prefill_8") == _parameters(program, "decode")
    assert {spec.name for spec in program.info.states} == {
        *("position", "tokens", "logits"),
        *("keys_0", "values_0", "keys_1", "values_1"),
    }
    text = program.info.text
    assert text is not None
    assert (text.context, text.prefill, text.stop) == (CONTEXT, (8,), (257,))
    assert text.template == tiny.TEMPLATE


def _parameters(program: Program, name: str) -> set[str]:
    (function,) = (f for f in program.info.functions if f.signature.name == name)
    return {role.name for role in function.arguments if isinstance(role, Parameter)}


def test_a_module_that_chooses_another_token_is_found_out(compiled: tuple[Program, Path]) -> None:
    program, path = compiled
    golden = program.golden
    assert golden is not None
    with load(path) as loaded:
        assert check_golden(loaded, golden).ok
        last = golden.calls[-1]
        other = np.asarray((int(last.outputs[0]) + 1) % tiny.VOCABULARY, np.int32)
        wrong = replace(last, outputs=(other,), others=())
        assert not check_golden(loaded, Golden(calls=(*golden.calls[:-1], wrong))).ok
        tied = replace(wrong, others=(np.asarray([int(last.outputs[0])], np.int32),))
        found = check_golden(loaded, Golden(calls=(*golden.calls[:-1], tied)))
        assert found.ok
        assert found.ties == 1


def test_products_read_their_weights_as_they_are(compiled: tuple[Program, Path]) -> None:
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import entry_block, find_function
    from edgec.toolchain.stablehlo import parse_stablehlo

    program, _ = compiled
    (decode,) = (f for f in program.info.functions if f.signature.name == "decode")
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        function = find_function(module, "decode")
        for role, argument in zip(decode.arguments, entry_block(function).arguments, strict=True):
            if isinstance(role, Parameter) and role.name.endswith("proj.weight"):
                (use,) = argument.uses
                assert use.owner.operation.name == "stablehlo.transpose"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save("llama", tmp_path_factory.mktemp("llama"))


def test_sizes_that_make_no_sense_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="up to 256 tokens"):
        export_source(f"hf:{folder}", context=257)
    with pytest.raises(UsageError, match="a chunk of 1 token"):
        export_source(f"hf:{folder}", prefill=(1,))
    with pytest.raises(UsageError, match="takes no --dynamic"):
        export_source(f"hf:{folder}", dynamic=("batch=1..8",))
    with pytest.raises(UsageError, match="takes no --context"):
        export_source("model.onnx", context=64)


def test_folders_that_are_no_language_model_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such folder"):
        export_source(f"hf:{tmp_path / 'none'}")
    with pytest.raises(SourceError, match=r"no config\.json"):
        export_source(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text('{"model_type": "martian"}')
    with pytest.raises(UnsupportedOp, match="architecture martian"):
        export_source(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(SourceError, match="holds no tokenizer"):
        export_source(f"hf:{tmp_path}")


def test_a_tokenizer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SourceError, match="do not belong together"):
        export_opened(tiny.model("llama", vocab_size=200), tiny.tokenizer(), context=32)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=() if name in _QUICK_RECURRENT else pytest.mark.slow)
        for name in tiny.RECURRENT
        if name != "qwen3_5_text"
    ],
)
def test_what_all_tokens_left_is_kept_from_call_to_call(family: str) -> None:
    """In eager PyTorch, a text in chunks and tokens beside the same in one pass."""
    model = tiny.model(family)
    sizes = (4, 16) if reads_chunks(model) else ()
    bundle = stepping(model, context=CONTEXT, prefill=sizes)
    functions = {entry.name: entry.function for entry in bundle.entries}
    text = torch.arange(60, dtype=torch.int32) * 7 % 250
    at, count = 0, torch.tensor
    with torch.no_grad():
        right = model(text[None].long(), use_cache=False).logits[0]
        for size in [*(16, 4, 16) * bool(sizes), 1, 1, *(4,) * bool(sizes), 1]:
            part = text[at : at + size]
            if size == 1:
                functions["decode"](part[0])
            else:
                # What does not fit leaves no trace.
                assert functions[f"prefill_{size}"](part, count(size - 1)) == -1
                functions[f"prefill_{size}"](part, count(size))
            at += size
            found = functions["decode"].__self__.logits
            assert torch.allclose(found, right[at - 1], atol=2e-3)
        assert functions["reset"](count(at)) == at
        assert functions["reset"](count(at - 1)) == 0
        functions["decode"](text[0])
        assert torch.allclose(found, right[0], atol=2e-3)
    assert sizes or family in tiny.ONE_BY_ONE


@pytest.mark.slow
@pytest.mark.parametrize("family", tiny.RECURRENT)
def test_recurrent_models_write_what_transformers_writes(family: str, tmp_path: Path) -> None:
    program = export_opened(tiny.model(family), tiny.tokenizer(), context=CONTEXT)
    assert program.info.text is not None
    assert program.info.text.recurrent
    assert bool(program.info.text.prefill) == (family not in tiny.ONE_BY_ONE)
    program.save(tmp_path / "model.mlirbc")
    module = compile(program, "cpu", CompileOptions(output=tmp_path / "model.vmfb", level=1))
    assert module.facts.check.startswith("checked")


def test_guesses_for_a_recurrent_model_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="cannot be taken back"):
        export_opened(tiny.model("lfm2"), tiny.tokenizer(), context=32, speculate=4)


def _without_cache() -> Any:
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    torch.manual_seed(0)
    config = OpenAIGPTConfig(vocab_size=300, n_positions=64, n_embd=32, n_layer=1, n_head=2)
    return OpenAIGPTLMHeadModel(config).eval()


def test_a_model_that_keeps_no_cache_reads_a_text_anew() -> None:
    """In eager PyTorch, beside the whole text in one pass."""
    model = _without_cache()
    behind = token_behind(model)
    bundle = stepping(model, context=24, prefill=(8,), verify=2, behind=behind)
    functions = {entry.name: entry.function for entry in bundle.entries}
    text = torch.arange(24, dtype=torch.int32) * 7 % 250
    with torch.no_grad():
        right = model(text[None].long()).logits[0]
        found = functions["decode"].__self__
        for begin, end in ((0, 6), (6, 14), (14, 19)):
            chunk = torch.zeros(8, dtype=torch.int32)
            chunk[: end - begin] = text[begin:end]
            best = functions["prefill_8"](chunk, torch.tensor(end - begin))
            assert best == right[end - 1].argmax()
            assert torch.allclose(found.logits, right[end - 1], atol=1e-5)
        assert functions["decode"](text[19]) == right[19].argmax()
        guesses = torch.stack([text[20], right[20].argmax().to(torch.int32)])
        best = functions["verify_2"](guesses, torch.tensor(2))
        assert best[0] == right[20].argmax()
        assert best[1] >= 0
        assert functions["reset"](torch.tensor(21)) == 21
        assert functions["decode"](text[21]) == right[21].argmax()
        assert functions["prefill_8"](text[:8], torch.tensor(8)) == -1  # no room


@pytest.mark.slow
def test_such_a_model_writes_what_transformers_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = export_opened(_without_cache(), tiny.tokenizer(), context=32)
    assert "writes nothing into the cache" in caplog.text
    assert "costs as much as reading 32" in caplog.text
    module = compile(program, "cpu", CompileOptions(output=tmp_path / "model.vmfb", level=1))
    assert module.facts.check.startswith("checked")


def test_a_cache_is_refused_where_a_text_cannot_be_read_anew() -> None:
    """CPM-Ant's tokens look at those behind them, and a prompt of its own stands before a text."""
    from transformers import CpmAntConfig, CpmAntForCausalLM

    torch.manual_seed(0)
    config = CpmAntConfig(
        **{"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 1, "prompt_length": 4},
        **{"num_attention_heads": 2, "dim_head": 16, "dim_ff": 48, "prompt_types": 4},
    )
    with pytest.raises(UnsupportedOp, match="keeps 5 keys of one token"):
        export_opened(CpmAntForCausalLM(config).eval(), tiny.tokenizer(), context=32)
