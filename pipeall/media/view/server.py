"""The server behind the page: a thread for each connection, of which there are few, and one that accepts them."""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from ...errors import ArgumentError
from .address import listen, url
from .feed import Feed
from .requests import Answerer

VIEWERS = 8
CONNECTIONS = 32  # viewers, pages on their way, and whoever has no token
TICK_S = 1.0  # how often overdue connections are looked for
GRACE_S = 0.5  # for viewers to hear that the run has ended
JPEG_BEGIN = b"\xff\xd8"


class View:
    """A page that shows the newest picture and figures of a run to a few viewers at once, from now until ``close``.

    It listens on this machine alone unless a ``host`` is given, then its address holds a random token. Port 0 takes any
    that is free. A viewer that is slow skips pictures.
    """

    def __init__(self, host: str | None = None, port: int = 0) -> None:
        listener = listen(host, port)
        token = secrets.token_urlsafe(16) if host else None
        self.address = url(host, listener.getsockname()[1], token)
        self._server = Server(listener, token)

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

        ``figures``: network, plan, fps, latency_p50_ms, latency_p95_ms, dropped, stages (of unit, use from 0 to 1 and
        busy_ms), answer (lines of text). What is absent or None shows as a dash.
        """
        picture = bytes(jpeg)
        if not picture.startswith(JPEG_BEGIN):
            raise ArgumentError(f"a picture for the page: expected the bytes of a JPEG, got {picture[:4]!r}...")
        self._server.feed.put(picture, figures)

    def close(self) -> None:
        """Tells the viewers that the run has ended, and ends all connections and threads. A second one does nothing."""
        self._server.close()


class Connection:
    """A browser's connection, and the thread that answers it. Sockets block: one that is overdue is shut down."""

    def __init__(self, server: Server, peer: socket.socket) -> None:
        self.feed, self.token = server.feed, server.token
        self.is_viewer = False
        self._server, self._socket = server, peer
        self._deadline = float("inf")
        self.thread = threading.Thread(target=self._answer, name="pipeall view", daemon=True)

    def due(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def becomes_viewer(self) -> bool:
        return self._server.admit(self)

    def is_gone(self) -> bool:
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def end(self) -> None:
        """Wakes its thread up, wherever it waits on the socket."""
        with suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_RDWR)

    def end_if_overdue(self, now: float) -> None:
        if now > self._deadline:
            self.end()

    def _answer(self) -> None:
        try:
            with self._socket, suppress(OSError):  # a viewer may vanish at any time
                Answerer(self._socket, None, self)  # type: ignore[arg-type]
        finally:
            self._server.forget(self)


class Server:
    """Accepts connections until it is closed."""

    def __init__(self, listener: socket.socket, token: str | None) -> None:
        self.feed, self.token = Feed(), token
        self._listener = listener
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._wake, self._woken = socket.socketpair()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="pipeall view", daemon=True)
        self._thread.start()

    @property
    def viewers(self) -> int:
        with self._lock:
            return sum(connection.is_viewer for connection in self._connections)

    def admit(self, connection: Connection) -> bool:
        """Whether it is a viewer, or becomes one."""
        with self._lock:
            viewers = sum(other.is_viewer for other in self._connections)
            connection.is_viewer = connection.is_viewer or viewers < VIEWERS
            return connection.is_viewer

    def forget(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.send(b".")
        self._thread.join()
        self.feed.end()
        end = time.monotonic() + GRACE_S
        for connection in self._open():
            if connection.is_viewer:
                connection.thread.join(max(0.0, end - time.monotonic()))
        for connection in self._open():
            connection.end()
            connection.thread.join()
        self._wake.close()

    def _open(self) -> list[Connection]:
        with self._lock:
            return list(self._connections)

    def _run(self) -> None:
        with self._listener, self._woken, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._closed:
                if any(key.fileobj is self._listener for key, _ in selector.select(TICK_S)):
                    self._accept()
                for connection in self._open():
                    connection.end_if_overdue(time.monotonic())

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it vanished, or this process has no descriptor left
            time.sleep(0.01)
            return
        peer.setblocking(True)
        connection = Connection(self, peer)
        with self._lock:
            full = len(self._connections) >= CONNECTIONS
            if not full:
                self._connections.add(connection)
        try:
            if full:
                raise RuntimeError("too many connections")
            connection.thread.start()
        except RuntimeError:  # also of a system that has no thread left
            self.forget(connection)
            peer.close()
