"""Several cameras at once, as a board has them: streams that die and come back, and what comes by standard input."""

import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count, takewhile

import numpy as np
import pytest
from clips import grey_clip
from commands import picture
from process import PROMPT_S

from pipeall import ArgumentError
from pipeall.media import sources
from pipeall.media.sources import Frames, find


@pytest.fixture(scope="module")
def av():
    return pytest.importorskip("av", reason="needs pipeall[video]")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Twenty frames of 0.8 s, in a container that may be sent as it is."""
    return grey_clip(tmp_path_factory.mktemp("clip") / "clip.mkv", 25)


class Sender:
    """A camera in the network: sends the clip to whoever connects, then dies; the next one may connect again."""

    def __init__(self, clip):
        self.content, self.sent = clip.read_bytes(), 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                peer, _ = self.server.accept()
            except OSError:
                return
            with peer:
                peer.sendall(self.content)
                self.sent += 1

    def close(self):
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)  # wakes accept
        self.server.close()


@pytest.fixture
def senders(clip, monkeypatch):
    monkeypatch.setattr(sources, "RETRY_S", 0.05)
    both = [Sender(clip), Sender(clip)]
    yield both
    for sender in both:
        sender.close()


def test_a_stream_that_dies_comes_back(senders):
    told = []
    frames = Frames(find([sender.url for sender in senders], False), tell=told.append)
    url, numbers = senders[0].url, []
    for frame in frames.apart()[url]:
        numbers.append(frame.number)
        if len(numbers) == 50:
            frames.close()
            senders[0].close()
    assert numbers == list(range(60)) and senders[0].sent == 3
    assert told[:2] == [f"{url}: gives no more frames; it is tried again", f"{url} is back"]


def test_alone_its_end_is_the_end(senders):
    assert len(list(Frames(find([senders[0].url], False), tell=print))) == 20


def test_without_anybody_to_tell_it_is_an_error(senders):
    with pytest.raises(ArgumentError, match="gives no more frames"):
        list(Frames(find([sender.url for sender in senders], False)).apart()[senders[0].url])


def test_one_that_was_never_there_is_an_error_alone_and_tried_beside_others(senders):
    senders[1].close()
    with pytest.raises(ArgumentError, match="Connection refused"):
        next(iter(Frames(find([senders[1].url], False), tell=print)))
    told = []
    frames = Frames(find([sender.url for sender in senders], False), tell=told.append)
    parts = frames.apart()
    assert list(parts) == [sender.url for sender in senders]
    assert next(iter(parts[senders[0].url])).number == 0
    reader = threading.Thread(target=lambda: list(parts[senders[1].url]))
    reader.start()
    deadline = time.monotonic() + 30
    while not told and time.monotonic() < deadline:
        time.sleep(0.01)
    frames.close()
    reader.join()
    assert "Connection refused" in told[0] and told[0].endswith("it is tried again")


def test_photos_and_videos_beside_a_camera(senders, clip, tmp_path):
    frames = Frames(find([str(picture(tmp_path)), senders[0].url, str(clip)], False), tell=print)
    parts = frames.apart()
    assert list(parts) == [senders[0].url, str(clip), "photos"]
    assert all(next(iter(part)).pixels.ndim == 3 for part in parts.values())  # one pixel format for all
    alone = Frames(find([str(clip), str(picture(tmp_path))], False))
    assert alone.apart() is alone


def run(*words, **options):
    command = [sys.executable, "-m", "pipeall", "run", "squeezenet", *words, "--plan", "B", "--json"]
    return subprocess.run(
        command, env=os.environ | {"PIPEALL_OPENCL": "off"}, capture_output=True, timeout=120, check=False, **options
    )


def test_standard_input(clip):
    """As ``rpicam-vid -o - | pipeall run MODEL -``."""
    with open(clip, "rb") as content:
        done = run("-", "--drop", "none", stdin=content)
    *answers, figures = map(json.loads, done.stdout.splitlines())
    assert len(answers) == figures["frames"] == 20
    assert done.returncode == 0 and answers[0]["source"] == "-"


def coded(av, form, codec, numbers, packet):
    """Frames of one camera as its program writes them: H.264 as of rpicam-vid, or MJPEG; ``packet`` gets each."""
    with av.open(Written(packet), "w", format=form) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.options = {"preset": "ultrafast", "tune": "zerolatency", "g": "10"} if codec == "libx264" else {}
        for number in numbers:
            frame = av.VideoFrame.from_ndarray(np.full((64, 96, 3), 10 + 2 * (number % 100), np.uint8))
            container.mux(stream.encode(frame.reformat(format=stream.pix_fmt)))


class Written:
    """A file that hands on what is written, at once."""

    def __init__(self, packet):
        self.write = packet


@pytest.mark.parametrize(("form", "codec"), [("h264", "libx264"), ("mjpeg", "mjpeg")])
def test_a_program_that_goes_on_writing(av, form, codec):
    """Its frames are seen while it lives; a parser waits for the next one to know where one ends."""
    command = [sys.executable, "-m", "pipeall", "run", "squeezenet", "-", "--plan", "B", "--json", "--drop", "none"]
    environment = os.environ | {"PIPEALL_OPENCL": "off"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        late = threading.Timer(PROMPT_S * 3, process.kill)
        late.start()
        coded(av, form, codec, range(100), process.stdin.write)
        answers = io.BufferedReader(process.stdout)
        numbers = [json.loads(answers.readline())["number"] for _ in range(98)]
        process.stdin.close()
        *rest, figures = map(json.loads, answers)
        assert process.wait() == 0
        late.cancel()
    assert [*numbers, *(answer["number"] for answer in rest)] == list(range(100)) and figures["unread"] == 0


@pytest.mark.parametrize(("host", "form", "size"), [("127.0.0.1", "mpegts", 7 * 188), ("@", "h264", 1400)])
def test_udp(av, host, form, size):
    """The camera sends whether somebody listens or not; whoever comes begins at a frame that stands alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    done, sender = threading.Event(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(content):
        for begin in range(0, len(content), size):
            sender.sendto(content[begin : begin + size], place)
        return len(content)

    numbers = takewhile(lambda _: not done.wait(0.005), count())
    camera = threading.Thread(target=coded, args=(av, form, "libx264", numbers, send))
    camera.start()
    try:
        greys = []
        for shot in Frames(find([f"udp://{host}:{place[1]}"], False), tell=print):
            greys.append(round(float(shot.rgb.mean())))
            if len(greys) == 30:
                break
    finally:
        done.set()
        camera.join()
        sender.close()
    steps = np.diff(greys) % 200
    assert np.median(steps) == 2 and (steps <= 12).all()  # one after the other; a few may be lost


def test_a_run_on_several(clip, tmp_path):
    """Videos and photos end; with a stream beside them it is Ctrl-C that ends it."""
    sender = Sender(clip)
    command = [sys.executable, "-m", "pipeall", "run", "squeezenet", sender.url, str(clip), "--plan", "B", "--json"]
    environment = os.environ | {"PIPEALL_OPENCL": "off"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = set()
    while len(seen) < 2 or sender.sent < 2:  # it has died once, and is back
        seen.add(json.loads(process.stdout.readline())["source"])
    process.terminate()
    shown, errors = process.communicate(timeout=60)
    figures = json.loads(shown.splitlines()[-1])
    of = figures["stats"]["sources"]
    assert set(of) == seen == {sender.url, str(clip)}
    assert sum(source["frames"] for source in of.values()) >= figures["stats"]["frames"] - 1 > 0  # one on its way
    assert "gives no more frames; it is tried again" in errors and process.returncode == 143
    sender.close()
