"""torch-mlir's passes in a process of their own, which some models kill and some never end in.

The process is started once, does one request after the other, and ends with this one.
"""

import atexit
import contextlib
import importlib
import io
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["Died", "Refused", "Request", "lowered", "serve"]

_MOST_MESSAGES = 20_000
"""A pass that says more repeats itself without end."""
_ENDLESS = 3
_SIZE = 8


class Died(Exception):
    """The process ended before its answer; the text says how."""


class Refused(Exception):
    """The passes refused a module.

    Args:
        text: of the error.
        messages: places and texts of what was said before.
        is_exception: whether they ended in an exception of C++.
    """

    def __init__(
        self, text: str, messages: Sequence[tuple[str, str]] = (), is_exception: bool = False
    ) -> None:
        super().__init__(text, messages, is_exception)
        self.text, self.messages, self.is_exception = text, messages, is_exception

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Request:
    """A module in the torch dialect, and what is to become of it.

    Attributes:
        package: whose bindings read it: `torch_mlir` or `iree.compiler`.
        module: its bytecode.
        pipelines: passes, in order; assertions are taken out behind the first.
        shapes: of its arguments, where StableHLO alone is to be left; None for a trial, whose
            answer is empty.
    """

    package: str
    module: bytes
    pipelines: tuple[str, ...]
    shapes: Sequence[Sequence[int | str]] | None


class _Process:
    """The process, while it lives."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[bytes] | None = None
        self.owner = os.getpid()
        self.lock = threading.Lock()

    def answer(self, request: Request) -> Any:
        """What the process answers to one request."""
        with self.lock:
            child = self.living()
            try:
                _write(child.stdin, request)
                return _read(child.stdout)
            except (BrokenPipeError, EOFError) as error:
                status = child.wait()
                self.stop()
                raise Died(_how(status)) from error
            except BaseException:  # an answer that nobody waits for is not the next one's
                self.stop()
                raise

    def living(self) -> subprocess.Popen[bytes]:
        """It, started if there is none of this process's."""
        if self.child is not None and self.child.poll() is not None:
            self.stop()
        if self.child is None or self.owner != os.getpid():
            self.owner = os.getpid()
            self.child = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self.child

    def stop(self) -> None:
        """End it."""
        if self.child is not None and self.owner == os.getpid():
            self.child.kill()
            self.child.wait()
            for stream in (self.child.stdin, self.child.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        self.child = None


_PROCESS = _Process()
atexit.register(_PROCESS.stop)


def lowered(request: Request) -> bytes:
    """What the passes make of a module.

    Raises:
        Died: they killed their process, or do not end.
        Refused: they refuse it.
        UnsupportedOp: an operation of another dialect is left that has no form in StableHLO.
    """
    answer = _PROCESS.answer(request)
    if isinstance(answer, Exception):
        raise answer
    return bytes(answer)


def _how(status: int) -> str:
    if status == _ENDLESS:
        return "do not end"
    return f"died of signal {-status}" if status < 0 else f"ended with exit code {status}"


def _write(stream: Any, value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(len(data).to_bytes(_SIZE, "little") + data)
    stream.flush()


def _read(stream: Any) -> Any:
    size = int.from_bytes(_exactly(stream, _SIZE), "little")
    return pickle.loads(_exactly(stream, size))


def _exactly(stream: Any, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return bytes(data)


class Messages:
    """What the passes say, each with its place."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def keep(self, place: str, text: str) -> None:
        """Keep a message; too many end the process."""
        self.found.append((place, text))
        if len(self.found) > _MOST_MESSAGES:
            os._exit(_ENDLESS)


def _made(request: Request) -> bytes | Exception:
    """The answer to one request."""
    ir = importlib.import_module(f"{request.package}.ir")
    passes = importlib.import_module(f"{request.package}.passmanager")
    context = ir.Context()
    if request.package == "torch_mlir":
        importlib.import_module("torch_mlir.dialects.torch").register_dialect(context)
    messages = Messages()

    def keep(diagnostic: Any) -> bool:
        messages.keep(str(diagnostic.location), str(diagnostic.message))
        return True

    with context:
        context.emit_error_diagnostics = request.shapes is not None
        module = ir.Module.parse(request.module)
        handler = context.attach_diagnostic_handler(keep)
        try:
            for number, pipeline in enumerate(request.pipelines):
                passes.PassManager.parse(pipeline).run(module.operation)
                if not number:
                    _drop_assertions(module, ir)
        except ir.MLIRError as error:
            return Refused(str(error), messages.found)
        except (MemoryError, RuntimeError) as error:  # how C++ exceptions of its passes arrive
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return Refused(text, messages.found, is_exception=True)
        finally:
            handler.detach()
        if request.shapes is None:
            return b""
        from edgec.exporters.from_torch.portable import only_stablehlo

        try:
            only_stablehlo(module, request.shapes)
        except UnsupportedOp as refusal:
            return refusal
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _drop_assertions(module: Any, ir: Any) -> None:
    """Take out checks of sizes, which have no lowering: torch.export has decided them."""
    found: list[Any] = []

    def collect(operation: Any) -> Any:
        if operation.name == "torch.runtime.assert":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for operation in found:
        operation.erase()


def serve() -> None:
    """Answer what comes on standard input, until nobody asks."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what C++ prints is nobody's answer
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _write(answers, _made(_read(sys.stdin.buffer)))
