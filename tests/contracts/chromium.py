"""A headless Chromium that tests drive over a pipe, in its DevTools' own language."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
)
SECONDS = 240.0
"""A browser whose files the disk must first bring can take minutes to start."""


def executable() -> str:
    """Where the browser is, or a skipped test that says how to get one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here: release/browser.sh installs it")
    return found


class Chromium:
    """A browser with one tab. `call` is a DevTools method, `run` a JavaScript expression."""

    def __init__(self, folder: Path) -> None:
        hears, tells = os.pipe()
        reads, writes = os.pipe()
        command = [executable(), *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        # The browser listens on descriptor 3 and answers on 4.
        redirect = ["bash", "-c", f'exec "$@" 3<&{hears} 4>&{writes}', "bash", *command]
        self._process = subprocess.Popen(
            redirect, pass_fds=(hears, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(hears)
        os.close(writes)
        self._tells, self._reads, self._rest, self._number = tells, reads, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        os.set_blocking(reads, False)
        try:
            tab = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=tab, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer of the browser; what it says meanwhile goes to `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._tells, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            try:
                chunk = os.read(self._reads, 1 << 20)
            except BlockingIOError:
                chunk = None
            if chunk == b"" or time.monotonic() > deadline:
                raise RuntimeError("the browser is gone or does not answer")
            if chunk is None:
                time.sleep(0.005)
            else:
                self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file in a window of this size, and wait until its script has run."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "failed"))
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + SECONDS
        while not self.run(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{expression} did not become true")
            time.sleep(0.02)

    def click(self, x: float, y: float) -> None:
        """Press and release the mouse at a point of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def press(self, key: str, code: int) -> None:
        """Press and release a key, by its name and its number."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def complaints(self) -> list[str]:
        """What went wrong in the page: exceptions, errors in the log, and loads from elsewhere."""
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(about["exceptionDetails"]["exception"].get("description", "exception"))
            elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
                found.append(about["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                address = about["request"]["url"]
                if not address.startswith(("file:", "data:")):
                    found.append(f"asks for {address}")
        return found

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page, as PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        os.close(self._tells)
        os.close(self._reads)
        self._process.terminate()
        self._process.wait(SECONDS)
