"""Headless Chromium, driven over a pipe, and a web server for the pages it is to show.

    with serve(folder) as address, Chromium() as browser:
        page = browser.open(f"{address}/index.html")
        page.wait("document.title === 'done'")

The pipe speaks the DevTools protocol: JSON messages, each ended by a zero byte, on the file
descriptors 3 and 4.
"""

import base64
import functools
import http.server
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["WEBGPU", "Chromium", "Page", "find_chromium", "serve"]

WEBGPU = (
    *("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"),
    "--enable-unsafe-swiftshader",
)
"""What gives a browser without a GPU one that is computed, SwiftShader."""

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage", "--mute-audio"),
    *("--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe"),
)


def find_chromium() -> str | None:
    """The browser's program; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser with a profile of its own, gone when the block ends."""

    def __init__(self, *flags: str) -> None:
        program = find_chromium()
        if program is None:
            raise FileNotFoundError("there is no chromium: run scripts/setup")
        self._profile = tempfile.mkdtemp(prefix="edgec-chromium-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        words = [program, *_FLAGS, *flags, f"--user-data-dir={self._profile}", "about:blank"]
        # The pipes' ends must be 3 and 4 in the browser. The second is the last of four that were
        # opened, thus above both, and the first move does not hit it.
        shell = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", str(to_browser), str(from_browser), *words],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._count = 0

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self, url: str, *, width: int = 900, height: int = 700) -> "Page":
        """A new page at a URL, which may not have loaded yet."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(browser=self, session=session, target=target)
        page.resize(width, height)
        page.go(url)
        return page

    def close(self) -> None:
        """End the browser and remove its profile."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._in, self._out):
            os.close(pipe)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, session: str = "", timeout: float = 60, **params: Any) -> Any:
        """Call a method of the protocol and wait for its answer; events are passed over."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._receive(deadline, method)
            if answer.get("id") != self._count:
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def _receive(self, deadline: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"chromium does not answer {method}")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError(f"chromium ended before it answered {method}")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found


class Page:
    """One tab."""

    def __init__(self, *, browser: Chromium, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    def send(self, method: str, timeout: float = 60, **params: Any) -> Any:
        """Call a method of the protocol on this page."""
        return self._browser.send(method, self._session, timeout, **params)

    def go(self, url: str) -> None:
        """Load another page; waits until its scripts run in it and it has an element."""
        failed = self.send("Page.navigate", url=url).get("errorText")
        if failed:
            raise RuntimeError(f"{url}: {failed}")
        is_there = f"location.href.split('#')[0] === {json.dumps(url.split('#')[0])}"
        self.wait(f"document.documentElement !== null && {is_there}")

    def run(self, code: str, timeout: float = 60) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        answer = self.send(
            "Runtime.evaluate",
            timeout,
            expression=code,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            raise RuntimeError(f"in the page: {thrown}")
        return answer["result"].get("value")

    def wait(self, code: str, timeout: float = 60) -> Any:
        """Wait until an expression is true; its value."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = self.run(code)
            except RuntimeError as error:
                if "context" not in str(error):  # the page is just being replaced by another
                    raise
                found = None
            if found:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true in the page: {code}")
            time.sleep(0.05)

    def resize(self, width: int, height: int, scale: float = 1, *, mobile: bool = False) -> None:
        """The window's size in CSS pixels, and how many pixels each of them has."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )

    def dark(self, is_dark: bool) -> None:
        """Prefer dark or light colours."""
        value = "dark" if is_dark else "light"
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": value}],
        )

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press the mouse at the first point (CSS pixels), move it along, let go at the last."""
        for number, (x, y) in enumerate(points):
            kind = "mousePressed" if number == 0 else "mouseMoved"
            button = {"button": "left", "buttons": 1, "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)
        x, y = points[-1]
        released = {"button": "left", "buttons": 0, "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, **released)

    def screenshot(self, file: Path) -> None:
        """What the window shows, as a PNG."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Close the tab."""
        self._browser.send("Target.closeTarget", targetId=self._target)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; says nothing, and sends what headers the server has."""

    headers_to_add: dict[str, str] = {}
    seen: list[str] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        super().do_GET()

    def end_headers(self) -> None:
        for name, value in self.headers_to_add.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serve(folder: Path, headers: dict[str, str] | None = None) -> Iterator["Server"]:
    """A web server of a folder on this machine, as plain as `python -m http.server`."""
    seen: list[str] = []
    kind = type("Handler", (_Handler,), {"headers_to_add": headers or {}, "seen": seen})
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(kind, directory=str(folder))
    )
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}", seen)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Server(str):
    """The server's address without a final `/`, and the paths that were asked for, in order."""

    seen: list[str]

    def __new__(cls, address: str, seen: list[str]) -> "Server":
        """An address with what was asked for."""
        self = super().__new__(cls, address)
        self.seen = seen
        return self
