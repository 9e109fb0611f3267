"""The live page's server: who may look, that nobody makes the run wait, and that nothing is left or grows."""

import gc
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
from pipeall.media import view as view_module
from pipeall.media.view import CONNECTIONS, PAGE, VIEWERS, View, parse_view

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


def test_the_page_its_figures_and_its_stream(view):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", view.address)
    view.show(jpeg(), FIGURES)
    with Viewer(view.address) as viewer:
        page = viewer.get("")
        assert page.status == 200 and page.read() == PAGE
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert viewer.next() == jpeg() and viewer.figures() == FIGURES
        view.show(jpeg("blue"), {"fps": 1})
        assert viewer.next() == jpeg("blue") and viewer.figures() == {"fps": 1}
        assert viewer.status("nothing") == 404


def test_the_page_is_whole_and_locked(view):
    """One file, no source outside of it, no inline handler, and a policy that allows just its script and its style."""
    text = PAGE.decode()
    assert not re.search(r"\ssrc=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)|\son\w+=|\sstyle=|eval\(", text)
    assert text.count("<script>") == text.count("<script") == text.count("<style>") == 1
    with Viewer(view.address) as viewer:
        policy = viewer.get("").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and policy.count("'sha256-") == 2 and "unsafe" not in policy


def test_opencv_plays_the_stream(view):
    cv2 = pytest.importorskip("cv2", reason="needs opencv-python-headless")
    stop = threading.Event()

    def run():
        while not stop.wait(0.02):
            view.show(jpeg("blue"), {})

    thread = threading.Thread(target=run)
    thread.start()
    capture = cv2.VideoCapture(f"{view.address}stream.mjpg")
    read, picture = capture.read()
    capture.release()
    stop.set()
    thread.join()
    assert read and picture.shape == (36, 64, 3) and picture[18, 32].tolist()[0] > 240


def test_figures_of_any_kind(view):
    """As the statistics give them: NaN before the first frame, scalars of NumPy, objects with a text."""
    odd = {"fps": math.nan, "use": np.float32(0.5), "dropped": np.int64(3), "plan": ValueError("B-L:7"), "x": (1e999,)}
    view.show(memoryview(GREEN), odd)
    with Viewer(view.address) as viewer:
        assert viewer.figures() == {"fps": None, "use": 0.5, "dropped": 3, "plan": "B-L:7", "x": [None]}
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
        for path in (
            "",
            "stats.json",
            f"{token[:-1]}/",
            f"{token}x/",
            "é/",
            urlsplit(other.address).path[1:],
            f"?{token}/",
        ):
            path = path.encode()
            for method in (b"GET", b"POST", b"HEAD"):
                answer = raw(view.address, method + b" /" + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                head, _, body = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n") and not body, (method, path)
                assert b"Server" not in head and b"python" not in head.lower() and token.encode() not in head
        with Viewer(f"{place}/{token}/") as viewer:
            assert viewer.status() == 200 and viewer.next() == GREEN
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


def test_another_sites_page_takes_no_viewers_place(view):
    with Viewer(view.address) as viewer:
        assert viewer.status("stream.mjpg", **{"Sec-Fetch-Site": "cross-site"}) == 403
        assert viewer.get("stats.json").headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_viewers_come_and_go(view):
    """One waits for the first picture; one vanishes while it waits, one while it takes a picture, one orderly."""
    waiting = Viewer(view.address)
    assert waiting.watch() == 200
    threading.Timer(0.05, view.show, (GREEN, {})).start()
    assert waiting.next() == GREEN
    leaving, vanishing = Viewer(view.address), Viewer(view.address)
    assert leaving.next() == vanishing.next() == GREEN and view.watched
    view.show(b"\xff\xd8" + bytes(20_000_000), {})
    reading = asked(view.address, receive_bytes=4096)
    assert reading.recv(10) and becomes(lambda: threads() == 5)
    waiting.leave()
    leaving.leave()
    vanishing.vanish()
    reading.close()
    assert becomes(lambda: not view.watched and threads() == 1)


def test_a_viewer_that_is_idle_or_stuck_is_left(view, monkeypatch):
    monkeypatch.setattr(view_module.Request, "timeout", 0.1)
    view.show(b"\xff\xd8" + bytes(20_000_000), {})
    url = urlsplit(view.address)
    with asked(view.address, receive_bytes=4096), socket.create_connection((url.hostname, url.port)) as idle:
        idle.sendall(b"GET / HT")
        assert becomes(lambda: threads() == 3) and becomes(lambda: threads() == 1)


def test_a_slow_viewer_skips_pictures_and_nobody_waits_for_it(view):
    """It gets the one that it began with, then the newest. 4,000 pictures of 1 MB go by meanwhile."""
    first, last = (b"\xff\xd8" + bytes([fill]) * 8_000_000 for fill in (1, 3))
    view.show(first, {"fps": 1})
    with Viewer(view.address) as slow, Viewer(view.address) as quick, promptly():
        assert slow.watch() == 200 and quick.next() == first
        between = b"\xff\xd8" + bytes(1_000_000)
        for _ in range(4000):
            view.show(between, {"fps": 2})
        view.show(last, {"fps": 3})
        while (picture := quick.next()) != last:
            assert picture in (first, between)
        assert slow.next() == first and slow.next() == last


def test_too_many_viewers_and_connections(view):
    view.show(GREEN, {})
    viewers = [Viewer(view.address) for _ in range(VIEWERS)]
    assert all(viewer.next() == GREEN for viewer in viewers)
    with Viewer(view.address) as late:
        assert late.status() == 200 and late.watch() == 503
        viewers.pop().leave()
        assert becomes(lambda: repr(view).endswith(f"{VIEWERS - 1} viewers>")) and late.watch() == 200
    for viewer in viewers:
        viewer.leave()
    assert becomes(lambda: threads() == 1)
    url = urlsplit(view.address)
    peers = [socket.create_connection((url.hostname, url.port)) for _ in range(CONNECTIONS + 20)]
    assert becomes(lambda: threads() == 1 + CONNECTIONS) and peers[-1].recv(1) == b""
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
            assert viewer.next() == GREEN


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
            assert viewer.next() == GREEN


def test_close_ends_streams_and_waits_for_none(view):
    view.show(b"\xff\xd8" + bytes(20_000_000), {})
    stuck = asked(view.address, receive_bytes=4096)
    assert stuck.recv(10)
    view.show(jpeg(), FIGURES)
    with Viewer(view.address) as viewer, Viewer(view.address) as idle:
        assert viewer.next() == jpeg() and idle.status() == 200
        threading.Timer(0.2, view.close).start()
        begin = time.monotonic()
        assert viewer.next() is None
        assert becomes(lambda: threads() == 0) and time.monotonic() - begin < 5
        view.close()
        view.show(GREEN, {})
        stuck.close()
    with pytest.raises(ConnectionRefusedError):
        Viewer(view.address).status()


def test_nothing_grows():
    """20,000 pictures, two steady viewers, one that comes and goes."""
    picture = b"\xff\xd8" + bytes(100_000)

    def look(address):
        with Viewer(address) as viewer:
            while viewer.next():
                pass

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
    for looker in lookers:
        looker.join()
    assert sizes[-1] - sizes[0] < 4_000_000, sizes
