"""A headless Chromium, driven by its DevTools protocol over a pipe: JSON between zero bytes, no package needed."""

import base64
import fcntl
import functools
import io
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = "chromium", "chromium-browser", "google-chrome"
PATIENCE_S = 60.0  # a busy machine takes seconds to start a browser
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe --no-first-run "
    "--disable-background-networking --disable-component-update --disable-default-apps --disable-sync --mute-audio "
    "--disable-extensions --disable-breakpad --disable-features=Translate,MediaRouter,OptimizationHints"
).split()


@functools.cache
def program() -> str | None:
    """One that runs: Ubuntu's package is a stub where there are no snaps."""
    for found in filter(None, map(shutil.which, NAMES)):
        if subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    return None


class Chromium:
    """A browser process with a profile of its own; ``open`` gives a page."""

    def __init__(self):
        found = program()
        assert found
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]  # 3 and 4 may be taken here
        command = [found, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec 3<&{high[0]} 4>&{high[1]}; exec "$@"', "chromium", *command],
            pass_fds=high,
            start_new_session=True,  # to end all of its processes
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": self.profile.name},
        )
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        self.read_fd, self.write_fd = ours_in, ours_out
        self.buffer, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.read_fd)
        os.close(self.write_fd)
        self.profile.cleanup()

    def send(self, method: str, session: str | None = None, **params):
        """The result of a call; events that come before it are kept in ``events``."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self.write_fd, data) :]
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self._receive(deadline)).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url: str) -> "Tab":
        """A page in a window of its own: one behind another would not be seen, and rest."""
        target = self.send("Target.createTarget", url="about:blank", newWindow=True)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.send(f"{domain}.enable")
        tab.send("Page.navigate", url=url)
        return tab

    def resident_bytes(self) -> int:
        """Memory of all its processes; what they share counts for each."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == self.process.pid:  # its session
                total += int(fields[21]) * os.sysconf("SC_PAGESIZE")
        return total

    def _receive(self, deadline: float) -> dict:
        while b"\0" not in self.buffer:
            if not select.select([self.read_fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium said nothing for {PATIENCE_S} s")
            if not (more := os.read(self.read_fd, 1 << 20)):
                raise RuntimeError(f"Chromium ended: {self.process.wait()}")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)


class Tab:
    """A page in it."""

    def __init__(self, browser: Chromium, target: str, session: str):
        self.browser, self.target, self.session = browser, target, session

    def send(self, method: str, **params):
        return self.browser.send(method, self.session, **params)

    def value(self, expression: str):
        """What JavaScript says, as JSON."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def text(self, element: str) -> str:
        return self.value(f"document.getElementById({element!r})?.textContent ?? ''")

    def until(self, expression: str) -> None:
        """Waits until it is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            assert time.monotonic() < deadline, f"never true: {expression}\n{self.value('document.body.innerText')}"
            time.sleep(0.05)

    def screenshot(self):
        """What is on the screen, a picture of Pillow."""
        from PIL import Image

        data = self.send("Page.captureScreenshot", format="png")["data"]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")

    def screen(self, width: int, height: int, mobile: bool = False, scheme: str = "light") -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def events(self, method: str) -> list[dict]:
        """The parameters of its events of a kind so far."""
        self.value("0")  # what came before this answer is there
        mine = (event for event in self.browser.events if event.get("sessionId") == self.session)
        return [event["params"] for event in mine if event["method"] == method]

    def close(self) -> None:
        self.browser.send("Target.closeTarget", targetId=self.target)
