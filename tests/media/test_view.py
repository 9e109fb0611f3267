"""The live page's server: who may look, that nobody makes the run wait, and that nothing is left or grows."""

import gc
import http.client
import math
import re
import socket
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from process import promptly, resident_bytes
from view_clients import FIGURES, Viewer, asked, becomes, jpeg, threads

from pipeall import ArgumentError
from pipeall.media.view import View, parse_view, requests, server

GREEN = b"\xff\xd8 a JPEG by its first bytes"


@pytest.fixture
def view():
    with View() as view:
        yield view


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert becomes(lambda: threads() == 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8080", (None, 8080)),
        ("0", (None, 0)),
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        ("board.local:80", ("board.local", 80)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
    ],
)
def test_where_to_listen(text, expected):
    assert parse_view(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":80", "host", "host:", "::1:80", "80 ", "-1", "65536", "a b:80", "http://x:80", "x:٣", "[x y]:1"]
)
def test_where_to_listen_in_one_line(text):
    with pytest.raises(ArgumentError, match=r"^--view: expected .*, got .*$"):
        parse_view(text)


def test_the_page_and_an_update(view):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", view.address)
    view.show(jpeg(), FIGURES)
    with Viewer(view.address) as viewer:
        page = viewer.get("")
        assert page.status == 200 and page.read() == requests.PAGE
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert viewer.next() == ({"number": viewer.seen, "ended": False, "figures": FIGURES}, jpeg())
        view.show(jpeg("blue"), {"fps": 1})
        update, picture = viewer.next()
        assert update["figures"] == {"fps": 1} and picture == jpeg("blue")
        assert viewer.status("nothing") == 404


def test_the_page_is_whole_and_locked(view):
    """One file, no source outside of it, no inline handler, and a policy that allows just its script and its style."""
    text = requests.PAGE.decode()
    assert not re.search(r"\ssrc=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)|\son\w+=|\sstyle=|eval\(", text)
    assert text.count("<script>") == text.count("<script") == text.count("<style>") == 1
    with Viewer(view.address) as viewer:
        policy = viewer.get("").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and policy.count("'sha256-") == 2 and "unsafe" not in policy


def test_figures_of_any_kind(view):
    """As the statistics give them: NaN before the first frame, scalars of NumPy, objects with a text."""
    odd = {"fps": math.nan, "use": np.float32(0.5), "dropped": np.int64(3), "plan": ValueError("B-L:7"), "x": (1e999,)}
    view.show(memoryview(GREEN), odd)
    with Viewer(view.address) as viewer:
        figures = viewer.next()[0]["figures"]
    assert figures == {"fps": None, "use": 0.5, "dropped": 3, "plan": "B-L:7", "x": [None]}
    with pytest.raises(ArgumentError, match="expected the bytes of a JPEG, got b'GIF8'"):
        view.show(b"GIF89a", {})


def raw(address, request):
    url = urlsplit(address)
    with socket.create_connection((url.hostname, url.port), timeout=30) as peer:
        peer.sendall(request)
        peer.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: peer.recv(65536), b""))


def test_a_token_is_needed_where_a_host_is_given():
    with View("127.0.0.1") as view, View("127.0.0.1") as other:
        token = re.fullmatch(r"http://127\.0\.0\.1:\d+/([\w-]{20,})/", view.address)[1]
        view.show(GREEN, FIGURES)
        place = f"http://{urlsplit(view.address).netloc}"
        for path in ("", "next", f"{token[:-1]}/", f"{token}x/", "é/", urlsplit(other.address).path[1:], f"?{token}/"):
            path = path.encode()
            for method in (b"GET", b"POST", b"HEAD", b"BREW"):
                answer = raw(view.address, method + b" /" + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                head, _, body = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n") and not body, (method, path)
                assert b"Server" not in head and b"python" not in head.lower() and token.encode() not in head
        with Viewer(f"{place}/{token}/") as viewer:
            assert viewer.status() == 200 and viewer.next()[1] == GREEN
            assert viewer.status(Host="any.example") == 200
        with Viewer(f"{place}/{token}") as viewer:
            assert viewer.status() == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("", 403),
    ],
)
def test_another_sites_name_is_refused(view, host, status):
    """DNS rebinding: a page of another site whose name leads here."""
    with Viewer(view.address) as viewer:
        assert viewer.status(Host=host) == status


def test_requests_that_are_none(view):
    view.show(GREEN, {})
    good = b"Host: localhost\r\n"
    assert raw(view.address, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403")
    assert raw(view.address, b"POST / HTTP/1.1\r\n" + good + b"\r\n").startswith(b"HTTP/1.1 501")
    assert raw(view.address, b"GET / HTTP/9\r\n\r\n") == b""
    assert raw(view.address, b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n" + good + b"\r\n")[:12] == b"HTTP/1.1 414"
    assert raw(view.address, b"GET / HTTP/1.1\r\n" + good + b"x: y\r\n" * 200 + b"\r\n")[:12] == b"HTTP/1.1 431"
    assert raw(view.address, b"\x16\x03\x01\x00\xff\r\n") == raw(view.address, b"") == b""
    with Viewer(view.address) as viewer:
        assert viewer.status("next", **{"Sec-Fetch-Site": "cross-site"}) == 403
    with Viewer(view.address) as viewer:
        assert viewer.next()[1] == GREEN


def test_two_viewers_at_once(view):
    with Viewer(view.address) as one, Viewer(view.address) as two:
        for fps in range(20):
            view.show(GREEN, {"fps": fps})
            assert [viewer.next()[0]["figures"]["fps"] for viewer in (one, two)] == [fps, fps]
        assert view.watched
    assert becomes(lambda: not view.watched)


def test_a_viewer_waits_for_a_picture(view, monkeypatch):
    monkeypatch.setattr(requests, "WAIT_S", 0.2)
    with Viewer(view.address) as viewer:
        assert viewer.status("next") == 204
        threading.Timer(0.05, view.show, (GREEN, {})).start()
        assert viewer.next()[1] == GREEN
        assert viewer.status(f"next?after={viewer.seen}") == 204


def test_a_viewer_that_vanishes(view):
    """While it waits, while it takes a picture, and with an orderly end."""
    view.show(GREEN, {})
    waiting, leaving = Viewer(view.address), Viewer(view.address)
    for viewer in (waiting, leaving):
        viewer.next()
        viewer.connection.request("GET", f"/next?after={viewer.seen}")
    view.show(b"\xff\xd8" + bytes(20_000_000), {})
    reading = asked(view.address, receive_bytes=4096)
    assert reading.recv(10) and becomes(lambda: threads() == 4)
    waiting.vanish()
    leaving.connection.close()
    reading.close()
    assert becomes(lambda: not view.watched and threads() == 1)


def test_a_viewer_that_is_idle_or_stuck_is_left(view, monkeypatch):
    monkeypatch.setattr(requests, "READ_S", 0.1)
    monkeypatch.setattr(requests, "SEND_S", 0.1)
    view.show(b"\xff\xd8" + bytes(20_000_000), {})
    url = urlsplit(view.address)
    with asked(view.address, receive_bytes=4096), socket.create_connection((url.hostname, url.port)) as idle:
        idle.sendall(b"GET / HT")
        assert becomes(lambda: threads() == 3) and becomes(lambda: threads() == 1)


def test_a_slow_viewer_skips_pictures_and_nobody_waits_for_it(view):
    """It gets the one that it began with, then the newest. 4,000 pictures of 1 MB go by meanwhile."""
    first, last = (b"\xff\xd8" + bytes([fill]) * 8_000_000 for fill in (1, 3))
    view.show(first, {"fps": 1})
    slow = Viewer(view.address)
    slow.connection.request("GET", "/next?after=")
    answer = slow.connection.getresponse()
    with Viewer(view.address) as quick, promptly():
        quick.next()
        between = b"\xff\xd8" + bytes(1_000_000)
        for _ in range(4000):
            view.show(between, {"fps": 2})
        view.show(last, {"fps": 3})
        assert quick.next()[1] == last
    body = answer.read()
    assert body.endswith(first)
    slow.seen = re.search(rb'"number": "([^"]+)"', body)[1].decode()
    update, picture = slow.next()
    assert update["figures"] == {"fps": 3} and picture == last
    slow.connection.close()


def test_too_many_viewers(view):
    view.show(GREEN, {})
    viewers = [Viewer(view.address) for _ in range(server.VIEWERS)]
    for viewer in viewers:
        viewer.next()
    with Viewer(view.address) as late:
        assert late.status() == 200 and late.status("next") == 503
        viewers.pop().connection.close()
        assert becomes(lambda: late.status("next") == 200)
    for viewer in viewers:
        assert viewer.status("next") == 200
        viewer.connection.close()


def test_too_many_connections(view):
    url = urlsplit(view.address)
    peers = [socket.create_connection((url.hostname, url.port)) for _ in range(server.CONNECTIONS + 20)]
    assert becomes(lambda: threads() == 1 + server.CONNECTIONS)
    assert peers[-1].recv(1) == b""
    for peer in peers:
        peer.close()
    with Viewer(view.address) as viewer:
        assert becomes(lambda: threads() == 1) and viewer.status() == 200


def test_a_port_in_use_and_other_places_that_cannot_be(view):
    port = urlsplit(view.address).port
    with pytest.raises(ArgumentError, match=rf"^--view 127\.0\.0\.1:{port}: expected a free port, this one is in use"):
        View(None, port)
    with pytest.raises(ArgumentError, match=r"^--view 192\.0\.2\.1:0: expected an address of this machine"):
        View("192.0.2.1", 0)
    with pytest.raises(ArgumentError, match=r"^--view no-such-host\.invalid:0: expected a name or an address"):
        View("no-such-host.invalid", 0)


def test_all_addresses_of_the_machine():
    """The address to open is one that others reach."""
    with View("0.0.0.0") as view:
        view.show(GREEN, {})
        assert urlsplit(view.address).hostname != "0.0.0.0"
        with Viewer(f"http://127.0.0.1:{urlsplit(view.address).port}{urlsplit(view.address).path}") as viewer:
            assert viewer.next()[1] == GREEN


@pytest.mark.parametrize("host", ["::1", "::"])
def test_ipv6(host):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with View(host) as view:
        view.show(GREEN, {})
        url = urlsplit(view.address)
        with Viewer(f"http://[::1]:{url.port}{url.path}") as viewer:
            assert viewer.next()[1] == GREEN


def test_close_tells_viewers_and_waits_for_none(view):
    view.show(jpeg(), FIGURES)
    with Viewer(view.address) as viewer, Viewer(view.address) as idle:
        viewer.next()
        assert idle.status() == 200
        view.show(b"\xff\xd8" + bytes(20_000_000), {"fps": 2})
        stuck = asked(view.address, receive_bytes=4096)
        viewer.next()
        told = []
        waiting = threading.Thread(target=lambda: told.append(viewer.next()[0]))
        waiting.start()
        time.sleep(0.2)
        begin = time.monotonic()
        view.close()
        assert time.monotonic() - begin < 5 and threads() == 0
        waiting.join()
        assert told[0]["ended"] and told[0]["figures"] == {"fps": 2}
        view.close()
        view.show(GREEN, {})
        stuck.close()
    with pytest.raises(ConnectionRefusedError):
        Viewer(view.address).status()


def test_a_run_that_starts_again_at_the_same_place(view):
    """A page that saw the former run's last picture gets the new one's first."""
    view.show(GREEN, {"fps": 1})
    port = urlsplit(view.address).port
    with Viewer(view.address) as viewer:
        viewer.next()
        view.close()
        with View(None, port) as again:
            again.show(GREEN, {"fps": 2})
            viewer.connection.close()
            assert viewer.next()[0]["figures"] == {"fps": 2}


def test_nothing_grows():
    """20,000 pictures, two steady viewers, one that comes and goes."""
    picture, stop = b"\xff\xd8" + bytes(100_000), threading.Event()

    def look(address):
        with Viewer(address) as viewer:
            while not stop.is_set():
                viewer.next()

    with View() as view:
        view.show(picture, FIGURES)
        lookers = [threading.Thread(target=look, args=(view.address,)) for _ in range(2)]
        for looker in lookers:
            looker.start()
        sizes = []
        for number in range(20_000):
            view.show(picture + bytes(number % 100), FIGURES)
            if number % 100 == 0:
                with Viewer(view.address) as passing:
                    passing.next()
            if number % 4000 == 3999:
                gc.collect()
                sizes.append(resident_bytes())
        assert becomes(lambda: threads() == 3)
        stop.set()
        view.show(picture, FIGURES)
        for looker in lookers:
            looker.join()
    assert sizes[-1] - sizes[0] < 4_000_000, sizes


def test_answers_are_those_of_http(view):
    """A client of the standard library sees whole answers and keeps its connection."""
    view.show(GREEN, {})
    with Viewer(view.address) as viewer:
        viewer.next()
        peer = viewer.connection.sock
        for _ in range(5):
            assert viewer.status() == 200
            view.show(GREEN, {})
            viewer.next()
        assert viewer.connection.sock is peer
    connection = http.client.HTTPConnection(urlsplit(view.address).netloc, timeout=30)
    connection.request("GET", "/", headers={"Connection": "close"})
    assert len(connection.getresponse().read()) == len(requests.PAGE)
    connection.close()
