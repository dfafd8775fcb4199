"""The engines that write text, each with the few lines that read a prompt and write tokens in it.

An engine runs in a process of its own, in the Python that has it, so that none needs another's
packages; all of this repository that such a process imports is here, but for edgec itself.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

__all__ = ["ENGINES", "Writer"]


class Writer(Protocol):
    """A language model that is open."""

    def read(self, tokens: list[int]) -> int:
        """Forget everything, read a prompt; the likeliest next token."""

    def write(self, token: int) -> int:
        """Read one more token; the likeliest next one."""


class _Edgec:
    """A module of edgec's (`.vmfb`)."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        from edgec.runtime.text import TextModel

        del context  # the module has its own
        self._model = TextModel(path, device=f"cpu?threads={threads}")
        self._text: list[int] = []

    def read(self, tokens: list[int]) -> int:
        # Another beginning than the last prompt's, so that none of it is known.
        self._model.next_token([(tokens[0] + 1) % self._model.facts.vocabulary])
        self._text = list(tokens)
        return self._model.next_token(self._text)

    def write(self, token: int) -> int:
        self._text.append(token)
        return self._model.next_token(self._text)


class _LlamaCpp:
    """A GGUF file by `llama-cpp-python`."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        from llama_cpp import Llama

        self._model: Any = Llama(
            model_path=str(path),
            n_ctx=context,
            n_threads=threads,
            n_threads_batch=threads,
            n_batch=256,
            n_ubatch=256,
            verbose=False,
        )

    def read(self, tokens: list[int]) -> int:
        self._model.reset()
        return self._eval(tokens)

    def write(self, token: int) -> int:
        return self._eval([token])

    def _eval(self, tokens: list[int]) -> int:
        self._model.eval(tokens)
        return int(self._model.sample(temp=0.0))


class _Cyllama:
    """A GGUF file by the llama.cpp in `cyllama`'s wheel, which is built for AVX2."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        from cyllama.llama import llama_cpp

        llama_cpp.disable_logging()
        self._cpp: Any = llama_cpp
        given = llama_cpp.LlamaContextParams()
        given.n_ctx, given.n_batch, given.n_ubatch = context, 256, 256
        given.n_threads = given.n_threads_batch = threads
        self._model = llama_cpp.LlamaModel(str(path), llama_cpp.LlamaModelParams())
        self._context = llama_cpp.LlamaContext(self._model, given)
        self._sampler = llama_cpp.LlamaSampler(llama_cpp.LlamaSamplerChainParams())
        self._sampler.add_greedy()
        self._position = 0

    def read(self, tokens: list[int]) -> int:
        self._context.kv_cache_clear()
        self._position = 0
        return self._decode(tokens)

    def write(self, token: int) -> int:
        return self._decode([token])

    def _decode(self, tokens: list[int]) -> int:
        self._context.decode(self._cpp.llama_batch_get_one(tokens, self._position))
        self._position += len(tokens)
        return int(self._sampler.sample(self._context, -1))


class _OpenVino:
    """A GGUF file, or a folder of OpenVINO's, by `openvino-genai`, whose pipeline writes alone."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        import numpy as np
        import openvino as ov
        import openvino_genai as genai

        del context
        self._np, self._ov, self._genai = np, ov, genai
        self._model = genai.LLMPipeline(str(path), "CPU", INFERENCE_NUM_THREADS=threads)

    def generate(self, tokens: list[int], count: int, stamps: list[float]) -> None:
        """Write so many tokens, noting when each is there."""
        import time

        config = self._genai.GenerationConfig(max_new_tokens=count, ignore_eos=True)
        given = self._ov.Tensor(self._np.array([tokens], self._np.int64))

        def note(_: int) -> bool:
            stamps.append(time.perf_counter())
            return False

        self._model.generate(given, config, note)


class _OnnxGenai:
    """A folder by `onnxruntime-genai`; `converted.py` makes one of a GGUF file."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        import json

        import onnxruntime_genai as genai

        config = genai.Config(str(path))
        options = {"intra_op_num_threads": threads}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self._genai: Any = genai
        self._model = genai.Model(config)
        self._settings = genai.GeneratorParams(self._model)
        # No token ends a text before its length.
        self._settings.set_search_options(max_length=context, min_length=context, do_sample=False)
        self._written: Any = None

    def read(self, tokens: list[int]) -> int:
        self._written = self._genai.Generator(self._model, self._settings)
        self._written.append_tokens(tokens)
        return self._next()

    def write(self, token: int) -> int:
        del token  # it is the generator's own last one
        return self._next()

    def _next(self) -> int:
        self._written.generate_next_token()
        return int(self._written.get_next_tokens()[0])


class _LiteRtLm:
    """A `.litertlm` file by `litert-lm-api`, whose own benchmark gives tokens and counts them."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        import litert_lm

        self._settings = {
            "model_path": str(path),
            "backend": litert_lm.Backend.CPU(thread_count=threads),
            "max_num_tokens": context,
        }
        self._benchmark: Any = litert_lm.Benchmark

    def times(self, prompt: int, count: int) -> tuple[float, float, float]:
        """Seconds to load, to read a prompt of so many tokens, and to write one of so many."""
        asked = self._benchmark(prefill_tokens=prompt, decode_tokens=count, **self._settings)
        found = asked.run()
        read = found.last_prefill_token_count / found.last_prefill_tokens_per_second
        return found.init_time_in_second, read, 1 / found.last_decode_tokens_per_second


ENGINES: Mapping[str, Callable[[Path, int, int], Any]] = MappingProxyType(
    {
        "edgec": _Edgec,
        "edgec, rows as bytes": _Edgec,
        "llama.cpp": _LlamaCpp,
        "llama.cpp (cyllama)": _Cyllama,
        "openvino-genai": _OpenVino,
        "onnxruntime-genai": _OnnxGenai,
        "litert-lm": _LiteRtLm,
    }
)


def pin(threads: int) -> None:
    """Keep this process on as many cores as it has threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
