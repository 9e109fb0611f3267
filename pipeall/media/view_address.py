"""Where the page is: what ``--view`` says, the socket that listens there, and the address to open."""

from __future__ import annotations

import errno
import re
import socket

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
