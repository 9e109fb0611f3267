"""The live page of a run in a browser: the annotated picture as Motion JPEG, the figures as JSON.

A page, ``stream.mjpg``, which any program that plays Motion JPEG can open, and ``stats.json``. One writer that never
waits; a thread for each connection, which takes the newest picture.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import hmac
import json
import math
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import ArgumentError

LOOPBACK = "127.0.0.1"
WILDCARDS = ("0.0.0.0", "::")
BACKLOG = 16  # connections that wait to be accepted


def parse_view(text: str) -> tuple[str | None, int]:
    """The host, None for loopback, and the port of ``[HOST:]PORT``; an IPv6 address is in brackets."""
    match = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]@?#]+):)?([0-9]{1,5})", text, re.ASCII)
    if match is None:
        raise ArgumentError(f"--view: expected [HOST:]PORT such as 8080, 0.0.0.0:8080 or [::1]:8080, got {text!r}")
    host, port = match[1], int(match[2])
    if port > 65535:
        raise ArgumentError(f"--view: expected a port from 0 to 65535, got {port}")
    return host and host.strip("[]"), port


def listen(host: str | None, port: int) -> socket.socket:
    """A socket that listens and does not block. Port 0 takes any that is free."""
    name = host or LOOPBACK
    where = f"--view {_joined(name, port)}"
    try:
        family, _, _, _, place = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ArgumentError(f"{where}: expected a name or an address of this machine, got an unknown one") from error
    both = name == "::" and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server(place[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        expected = {
            errno.EADDRINUSE: "expected a free port, this one is in use; 0 takes any",
            errno.EADDRNOTAVAIL: "expected an address of this machine, got another's",
            errno.EACCES: "expected a port that you may use, such as 8080",
        }
        raise ArgumentError(f"{where}: {expected.get(error.errno or 0, error.strerror or error)}") from error
    listener.setblocking(False)
    return listener


def url(host: str | None, port: int, token: str | None) -> str:
    """What to open in a browser; where all of a machine's addresses listen, the one that others reach it by."""
    name = _outward() if host in WILDCARDS else host or LOOPBACK
    return f"http://{_joined(name, port)}/{token + '/' if token else ''}"


def is_loopback(host: str | None) -> bool:
    """Whether a request's ``Host`` is this machine, at any port: a tunnel may have another. None is not."""
    name = re.sub(r":[0-9]+$", "", host or "", flags=re.ASCII)
    return name.lower() in (LOOPBACK, "localhost", "[::1]")


def _joined(host: str, port: int) -> str:
    return f"[{host.replace('%', '%25')}]:{port}" if ":" in host else f"{host}:{port}"


def _outward() -> str:
    """The address of this machine's way out; its name where there is none. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # RFC 5737: nobody's
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


PAGE = Path(__file__).with_name("view.html").read_bytes()
VIEWERS = 8
CONNECTIONS = 32  # viewers, pages on their way, and whoever has no token
IDLE_S = 10.0  # a connection that neither asks nor takes what it is sent for so long is closed
REPEAT_S = 0.5  # a picture is sent again: a browser shows it when the next one comes, and a viewer may have vanished
GRACE_S = 0.5  # for viewers to take the last picture when the run ends
JPEG_BEGIN = b"\xff\xd8"
BOUNDARY = "picture"


def _hash(tag: str) -> str:
    """The source in a content security policy that allows the page's own element of a kind, and no other."""
    (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), PAGE, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {_hash('script')}; style-src {_hash('style')}; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class View:
    """A page that shows the newest picture and figures of a run to a few viewers at once, until ``close``.

    A viewer that is slow skips pictures. Use it as a context manager, or call ``close``.

    Parameters
    ----------
    host : str, optional
        Where others reach it; the address then holds a random token. Default: this machine alone.
    port : int
        0 takes any that is free.

    Raises
    ------
    ArgumentError
        For a host or port that cannot be.
    """

    def __init__(self, host: str | None = None, port: int = 0) -> None:
        listener = listen(host, port)
        self._server = Server(listener, secrets.token_urlsafe(16) if host else None)
        self.address = url(host, listener.getsockname()[1], self._server.token)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<View {self.address}, {self._server.viewers} viewers>"

    @property
    def watched(self) -> bool:
        """Whether somebody looks: else a picture need not be drawn or made a JPEG."""
        return self._server.viewers > 0

    def show(self, jpeg: bytes, figures: Mapping[str, Any]) -> None:
        """Replaces what the page shows; never waits for a viewer. After ``close`` it does nothing.

        Parameters
        ----------
        jpeg : bytes
            The picture. Raises ArgumentError for another format.
        figures : mapping
            network, plan, fps, latency_p50_ms, latency_p95_ms, dropped, units (of unit, use from 0 to 1 and busy_ms),
            answer (lines of text). What is absent or None shows as a dash. Of several networks instead of their speed:
            networks (of network, plan, fps, fps_wanted, latency_p50_ms, latency_p99_ms and dropped).
        """
        picture = bytes(jpeg)
        if not picture.startswith(JPEG_BEGIN):
            raise ArgumentError(f"a picture for the page: expected the bytes of a JPEG, got {picture[:4]!r}...")
        self._server.put(picture, json.dumps(plain(figures), allow_nan=False))

    def close(self) -> None:
        """Ends the streams, all connections and threads. A second one does nothing."""
        self._server.close()


class Server(ThreadingHTTPServer):
    """Holds the newest picture and figures, whatever the number of viewers and however slow they are."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, token: str | None) -> None:
        super().__init__(listener.getsockname()[:2], Request, bind_and_activate=False)
        self.socket.close()
        self.socket, self.token = listener, token
        self.changed = threading.Condition()
        self.run, self.ended = secrets.token_hex(4), False
        self.picture, self.figures, self.count = b"", "{}", 0
        self.viewers = 0
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._thread = threading.Thread(target=self.serve_forever, args=(REPEAT_S,), name="pipeall view", daemon=True)
        self._thread.start()

    def put(self, picture: bytes, figures: str) -> None:
        with self.changed:
            if not self.ended:
                self.picture, self.figures, self.count = picture, figures, self.count + 1
                self.changed.notify_all()

    def next(self, seen: int) -> tuple[int, bytes] | None:
        """The newest picture and its number, after REPEAT_S also the one ``seen``; None where that is the last."""
        with self.changed:
            self.changed.wait_for(lambda: self.count != seen or self.ended, REPEAT_S)
            return None if self.count == seen and self.ended else (self.count, self.picture)

    def admit(self, change: int) -> bool:
        """Counts a viewer in or out; False where there are enough."""
        with self.changed:
            admitted = self.viewers + change <= VIEWERS
            self.viewers += change if admitted else 0
            return admitted

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), name="pipeall view", daemon=True
        )
        with self.changed:
            full = len(self._connections) >= CONNECTIONS
            if not full:
                self._connections[request] = thread
        try:
            if full:
                raise RuntimeError("too many connections")
            thread.start()
        except RuntimeError:  # also of a system that has no thread left
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self.changed:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer may vanish at any time."""

    def close(self) -> None:
        with self.changed:
            first, self.ended = not self.ended, True
            self.changed.notify_all()
        if not first:
            return
        self.shutdown()
        self._thread.join()
        self.server_close()
        end = time.monotonic() + GRACE_S
        while self.viewers and time.monotonic() < end:
            time.sleep(0.01)
        with self.changed:
            left = dict(self._connections)
        for connection in left:
            with suppress(OSError):  # it has ended
                connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join()


class Request(BaseHTTPRequestHandler):
    """Answers the requests of one connection. A client that may not ask gets a status and nothing else."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_S
    server: Server

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self._allowed():
            return True
        self.send_error(403)
        return False

    def handle_expect_100(self) -> bool:
        return True  # no word before it is known who asks

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        answers = {"": self._page, "stream.mjpg": self._stream, "stats.json": self._stats}
        answers.get(self._path()[1], lambda: self.send_error(404))()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The status alone, and the end of the connection."""
        self.close_connection = True
        self._send(code, None, b"")

    def log_message(self, *_: object) -> None:
        """Nothing: an address may hold the token."""

    def _path(self) -> tuple[str, str]:
        """The token, empty where none is asked for, and what is asked."""
        path = self.path.partition("?")[0].removeprefix("/")
        token, _, rest = path.partition("/") if self.server.token else ("", "", path)
        return token, rest

    def _allowed(self) -> bool:
        """With the token. Without one on this machine, unless a page of another site reached it under a name of its own
        (DNS rebinding)."""
        if self.server.token:
            return hmac.compare_digest(self._path()[0].encode("utf-8", "replace"), self.server.token.encode())
        return is_loopback(self.headers.get("Host"))

    def _page(self) -> None:
        self._send(200, "text/html; charset=utf-8", PAGE)

    def _stats(self) -> None:
        server = self.server
        with server.changed:
            text = f'{{"run": "{server.run}", "pictures": {server.count}, "figures": {server.figures}}}'
        self._send(200, "application/json", text.encode())

    def _stream(self) -> None:
        """The newest picture again and again, each as soon as the one before it is taken."""
        if self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return self.send_error(403)  # another site's page would take a viewer's place
        if not self.server.admit(1):
            return self.send_error(503)
        self.close_connection = True
        try:
            self._begin(200, f"multipart/x-mixed-replace; boundary={BOUNDARY}")
            self.wfile.write(f"--{BOUNDARY}\r\n".encode())
            seen = 0
            while newest := self.server.next(seen):
                seen, picture = newest
                if seen:
                    head = f"Content-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
                    self.wfile.write(head.encode() + picture + f"\r\n--{BOUNDARY}\r\n".encode())
        finally:
            self.server.admit(-1)

    def _send(self, code: int, kind: str | None, body: bytes) -> None:
        self._begin(code, kind, len(body))
        self.wfile.write(body)

    def _begin(self, code: int, kind: str | None, length: int | None = None) -> None:
        self.send_response_only(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def plain(value: Any) -> Any:
    """A value as JSON has it: no NaN or infinity, scalars of NumPy as numbers, anything else as its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return plain(value.item()) if hasattr(value, "item") else str(value)
