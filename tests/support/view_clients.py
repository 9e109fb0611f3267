"""Viewers of the live page without a browser, and what they look at."""

import http.client
import io
import json
import socket
import struct
import threading
import time
from urllib.parse import urlsplit

FIGURES = {
    "network": "yolox_nano",
    "plan": "B-G:7-L:20",
    "fps": 29.97,
    "latency_p50_ms": 41.24,
    "latency_p95_ms": 55.5,
    "dropped": 3,
    "units": [
        {"unit": "bigx4", "use": 0.93, "busy_ms": 31.1},
        {"unit": "gpu", "use": 0.5, "busy_ms": 16.1},
        {"unit": "littlex2", "use": 0.15, "busy_ms": 5.0},
    ],
    "answer": ["dog 0.93: 12, 30 to 200, 310", "<b>bicycle</b> & 0.88"],
}

SEVERAL = {
    "network": "det, rec",
    "networks": [
        {
            "network": "det",
            "plan": "B-L:4",
            "fps": 14.94,
            "fps_wanted": 15,
            "latency_p50_ms": 41.2,
            "latency_p99_ms": 79.0,
            "dropped": 3,
        },
        {"network": "<b>rec</b>", "fps": 61, "latency_p50_ms": 5.0, "latency_p99_ms": 9.1, "dropped": 0},
    ],
    "units": [{"unit": "big", "use": 0.71}],
    "answer": ["det: dog"],
}


def jpeg(colour="green", size=(64, 36)) -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, "JPEG", quality=95)
    return written.getvalue()


class Viewer:
    """What the page does: asks for figures, and follows the stream over a connection of its own."""

    def __init__(self, address: str, timeout: float = 30.0):
        self.url = urlsplit(address)
        self.connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)
        self.stream = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)
        self._parts = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.leave()

    def leave(self) -> None:
        self.stream.close()
        if self._parts:
            self._parts.close()
        self._parts = None

    def get(self, what: str, **headers: str) -> http.client.HTTPResponse:
        self.connection.request("GET", f"{self.url.path}{what}", headers={"Connection": "keep-alive"} | headers)
        return self.connection.getresponse()

    def status(self, what: str = "", **headers: str) -> int:
        answer = self.get(what, **headers)
        answer.read()
        return answer.status

    def figures(self) -> dict:
        return json.loads(self.get("stats.json").read())["figures"]

    def watch(self) -> int:
        """Begins to follow the stream; the status of the answer."""
        self.stream.request("GET", f"{self.url.path}stream.mjpg")
        self.peer = self.stream.sock
        answer = self.stream.getresponse()
        if answer.status == 200:
            assert answer.headers["Content-Type"] == "multipart/x-mixed-replace; boundary=picture"
            self._parts = answer
            assert answer.readline() == b"--picture\r\n"
        return answer.status

    def next(self) -> bytes | None:
        """The next picture of the stream; None after the last."""
        if self._parts is None:
            assert self.watch() == 200
        if not (kind := self._parts.readline()):
            return None
        assert kind == b"Content-Type: image/jpeg\r\n"
        name, length = self._parts.readline().split()
        assert name == b"Content-Length:" and self._parts.readline() == b"\r\n"
        picture = self._parts.read(int(length))
        assert self._parts.readline() == b"\r\n" and self._parts.readline() == b"--picture\r\n"
        return picture

    def vanish(self) -> None:
        """Without a word: a reset instead of an orderly end."""
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.leave()


def asked(address: str, receive_bytes: int | None = None) -> socket.socket:
    """A viewer that has asked for the stream and reads nothing."""
    url = urlsplit(address)
    peer = socket.socket()
    if receive_bytes:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.settimeout(30)
    peer.connect((url.hostname, url.port))
    peer.sendall(f"GET {url.path}stream.mjpg HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
    return peer


def threads() -> int:
    return sum(thread.name == "pipeall view" for thread in threading.enumerate())


def becomes(true) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()
