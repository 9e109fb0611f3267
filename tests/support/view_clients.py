"""Viewers of the live page without a browser, and what they look at."""

import http.client
import io
import json
import socket
import struct
import threading
import time
from urllib.parse import quote, urlsplit

FIGURES = {
    "network": "yolox_nano",
    "plan": "B-G:7-L:20",
    "fps": 29.97,
    "latency_p50_ms": 41.24,
    "latency_p95_ms": 55.5,
    "dropped": 3,
    "stages": [
        {"unit": "bigx4", "use": 0.93, "busy_ms": 31.1},
        {"unit": "gpu", "use": 0.5, "busy_ms": 16.1},
        {"unit": "littlex2", "use": 0.15, "busy_ms": 5.0},
    ],
    "answer": ["dog 0.93: 12, 30 to 200, 310", "<b>bicycle</b> & 0.88"],
}


def jpeg(colour="green", size=(64, 36)) -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, "JPEG", quality=95)
    return written.getvalue()


class Viewer:
    """What the page does: asks for the update after the one that it has, again and again, over one connection."""

    def __init__(self, address: str, timeout: float = 30.0):
        self.url = urlsplit(address)
        self.connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def get(self, what: str, **headers: str) -> http.client.HTTPResponse:
        self.connection.request("GET", f"{self.url.path}{what}", headers={"Connection": "keep-alive"} | headers)
        return self.connection.getresponse()

    def next(self) -> tuple[dict, bytes]:
        """JSON and JPEG of the next update."""
        answer = self.get(f"next?after={quote(self.seen)}")
        body = answer.read()
        assert answer.status == 200, answer.status
        (length,) = struct.unpack_from(">I", body)
        update = json.loads(body[4 : 4 + length])
        self.seen = update["number"]
        return update, body[4 + length :]

    def status(self, what: str = "", **headers: str) -> int:
        answer = self.get(what, **headers)
        answer.read()
        return answer.status

    def vanish(self) -> None:
        """Without a word: a reset instead of an orderly end."""
        self.connection.connect() if self.connection.sock is None else None
        self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.sock.close()


def asked(address: str, receive_bytes: int | None = None) -> socket.socket:
    """A viewer that has asked for an update and reads nothing."""
    url = urlsplit(address)
    peer = socket.socket()
    if receive_bytes:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.settimeout(30)
    peer.connect((url.hostname, url.port))
    peer.sendall(f"GET {url.path}next?after= HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
    return peer


def threads() -> int:
    return sum(thread.name == "pipeall view" for thread in threading.enumerate())


def becomes(true) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()
