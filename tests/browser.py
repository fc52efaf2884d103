"""A headless Chromium, driven by its own protocol (CDP): type, click, read the page, take a picture.

Needs Chromium, for example by `apt-get install chromium`. All that the page logs and all requests that
it starts are kept, so that a test can say that there were no errors, and that nothing left the machine.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (  # nothing of Chromium's own on the network, and no sandbox, which root may not have
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-default-apps", "--hide-scrollbars", "--mute-audio"),
    "--remote-debugging-port=0",
)
DESKTOP, PHONE = (1280, 900), (390, 844)
KEYS = {
    "Enter": (13, "\r"),
    "ArrowDown": (40, ""),
    "Tab": (9, ""),
    **{key: (ord(key.upper()), key) for key in "01url"},
}
"""The number of a key, and what it types."""


def chromium() -> str:
    """The path of Chromium; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: install it with `apt-get install chromium`")
    return found


class Tab:
    """One page of a browser.

    Attributes:
        messages: what the page wrote to its console, errors among them.
        requests: the addresses of all requests that it started.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.messages: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and keep the events that come before its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._keep(message)

    def _keep(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.consoleAPICalled":
                self.messages.append(f"{params['type']}: {params['args']}")
            case "Runtime.exceptionThrown":
                self.messages.append(f"exception: {params['exceptionDetails']}")
            case "Log.entryAdded":
                self.messages.append(f"{params['entry']['level']}: {params['entry']['text']}")

    def open(self, address: str) -> None:
        """Go to an address, as if it were typed."""
        self.call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """The value of an expression in the page."""
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def wait_for(self, script: str, *, timeout_s: float = 90) -> None:
        """Wait until an expression is true."""
        ends = time.monotonic() + timeout_s
        while not self.value(script):
            assert time.monotonic() < ends, (
                f"{script} is still false: {self.value('document.body.innerText')}"
            )
            time.sleep(0.1)

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        box = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView();"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def fill(self, selector: str, text: str) -> None:
        """Type into a field in place of what it has."""
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.type(text)

    def press(self, key: str) -> None:
        """Press one of `KEYS`."""
        number, text = KEYS[key]
        names = {"key": key, "code": key, "windowsVirtualKeyCode": number}
        for kind, typed in (("keyDown", text), ("keyUp", "")):
            self.call("Input.dispatchKeyEvent", type=kind, text=typed, **names)

    def choose(self, selector: str, value: str) -> None:
        """Choose an entry of a menu by its value."""
        self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f" e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})()"
        )

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements, as the page shows them."""
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)")

    def resize(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Show the page in a window of this size; below 600 pixels as a phone does."""
        window = {"width": size[0], "height": size[1], "mobile": size[0] < 600}
        self.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])

    def picture(self, file: Path) -> None:
        """Write a PNG of what the window shows."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser with one tab; `folder` is for its profile."""
    profile = folder / "chromium"
    command = [chromium(), *QUIET, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            told, ends = profile / "DevToolsActivePort", time.monotonic() + 90
            while not (told.exists() and "\n" in told.read_text()):
                assert time.monotonic() < ends and process.poll() is None, "Chromium does not start"
                time.sleep(0.1)
            port = told.read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as reply:
                (tab,) = (one for one in json.load(reply) if one["type"] == "page")
            with connect(tab["webSocketDebuggerUrl"], max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.kill()


@contextlib.contextmanager
def emptied(tab: Tab, address: str) -> Iterator[Tab]:
    """The empty tab; at its end no error was logged, and nothing but `address` was asked for."""
    tab.open("about:blank")
    tab.wait_for("location.href === 'about:blank'")
    tab.messages.clear()
    tab.requests.clear()
    yield tab
    tab.value("1")  # takes the last events
    assert tab.messages == []
    strangers = [one for one in tab.requests if not one.startswith((address, "data:", "about:"))]
    assert tab.requests and strangers == []
