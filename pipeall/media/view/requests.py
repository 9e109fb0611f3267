"""What a browser may ask: the page, and the next update. Whoever may not gets a status and nothing else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs

from .address import is_loopback
from .feed import Feed

PAGE = (Path(__file__).parent / "page.html").read_bytes()
READ_S = 10.0  # for a whole request to come, and so how long a connection may be idle
WAIT_S = 5.0  # for a picture; then the page hears that there is none
LOOK_S = 0.5  # how often a viewer that waits is looked after
SEND_S = 30.0  # for an answer to be taken


def _hashes(tag: str) -> str:
    """The sources of a content security policy that allow the page's own elements of a kind, and no others."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), PAGE, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in found)


POLICY = (
    f"default-src 'none'; script-src {_hashes('script')}; style-src {_hashes('style')}; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Visit(Protocol):
    """One connection, as what answers it sees it."""

    feed: Feed
    token: str | None

    def due(self, seconds: float) -> None:
        """The connection is broken unless it says something else by then."""

    def becomes_viewer(self) -> bool:
        """False where there are enough."""

    def is_gone(self) -> bool:
        """Whether the other side closed it."""


class Answerer(BaseHTTPRequestHandler):
    """Answers the requests of one connection. ``server`` is its ``Visit``."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Visit  # type: ignore[assignment]

    def handle_one_request(self) -> None:
        self.server.due(READ_S)
        super().handle_one_request()

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self._may():
            return True
        self.send_error(403)
        return False

    def handle_expect_100(self) -> bool:
        return True  # no word before it is known who asks

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        what = self._path()[1]
        if what == "":
            self._send(200, "text/html; charset=utf-8", PAGE)
        elif what == "next":
            self._next()
        else:
            self.send_error(404)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The status alone, and the end of the connection."""
        self.close_connection = True
        self._send(code, None)

    def log_message(self, *_: object) -> None:
        """Nothing: an address may hold the token."""

    def _path(self) -> tuple[str, str]:
        """The token, empty where none is asked for, and what is asked."""
        path = self.path.partition("?")[0].removeprefix("/")
        token, _, rest = path.partition("/") if self.server.token else ("", "", path)
        return token, rest

    def _may(self) -> bool:
        """Who knows the token. Without one a browser of this machine, unless a page of another site reached it under a
        name of its own (DNS rebinding)."""
        if self.server.token:
            return hmac.compare_digest(self._path()[0].encode("utf-8", "replace"), self.server.token.encode())
        return is_loopback(self.headers.get("Host"))

    def _next(self) -> None:
        """The newest update that the page has not seen; 204 after a while without one."""
        if self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return self.send_error(403)  # another site's page would take a viewer's place
        if not self.server.becomes_viewer():
            return self.send_error(503)
        seen = parse_qs(self.path.partition("?")[2]).get("after", [""])[0]
        self.server.due(WAIT_S + READ_S)
        end = time.monotonic() + WAIT_S
        while (update := self.server.feed.newer(seen, LOOK_S)) is None and time.monotonic() < end:
            if self.server.is_gone():
                self.close_connection = True
                return None
        if update is None:
            return self._send(204, None)
        self.close_connection |= update.ended
        return self._send(200, "application/octet-stream", update.head, update.picture)

    def _send(self, code: int, kind: str | None, *parts: bytes) -> None:
        self.server.due(SEND_S)
        self.send_response_only(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", kind)
        if code != 204:
            self.send_header("Content-Length", str(sum(map(len, parts))))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        for part in parts:
            self.wfile.write(part)
