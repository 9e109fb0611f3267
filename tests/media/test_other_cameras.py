"""What docs/how-to/cameras.md says of picamera2 and GStreamer: its programs, on played cameras."""

import gc
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import picamera2
import pytest
from docs_pages import ROOT, blocks
from graphs import Net
from process import PROMPT_S

from pipeall import Engine, Picture, Pipeline

SIZE = (400, 300)  # width and height
SYSTEM = Path("/usr/lib/python3/dist-packages")  # where a system has its gi


def program(word):
    """The block of the page that has this word in it."""
    (found,) = [b.text for b in blocks(ROOT / "docs/how-to/cameras.md") if b.language == "python" and word in b.text]
    return found


@pytest.fixture
def camera_frames():
    """The page's camera, of a smaller size and fewer buffers, and its frames."""
    namespace = {}
    text = program("Picamera2()").replace("(1280, 720)", str(SIZE)).replace("buffer_count=8", "buffer_count=7")
    exec(text, namespace)
    return namespace["camera"], namespace["frames"]


def test_frames_of_picamera2_are_read_where_they_lie(camera_frames):
    """No frame is copied in Python, none goes back to the camera before it was read, and all do in the end."""
    camera, frames = camera_frames
    net = Net((1, 3, *SIZE[::-1]))
    graph, picture = net.graph(net.conv("x0", 2, k=9, strides=(8, 8))), Picture(frames="BGR", scale=255)
    shown = [picamera2.level(number, SIZE) for number in range(picamera2.SCENES)]
    with Engine(graph, "big", input=picture) as engine:
        expected = [engine(image) for image in shown]
    with Pipeline(graph, "big", input=picture) as pipe:
        for seen in pipe.stream(frames(), "none"):
            assert seen.frame.strides == (camera.stride, 3, 1) and camera.stride > 3 * SIZE[0]
            assert np.array_equal(seen.result, expected[seen.number % picamera2.SCENES])
            if seen.number == 10:
                tracemalloc.start()
            if seen.number == 39:
                break
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < shown[0].nbytes / 2
    del seen
    deadline = time.monotonic() + PROMPT_S
    while len(camera.free) < 7 and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert len(camera.free) == 7


def test_frames_of_gstreamer():
    """The page's program on GStreamer's own test picture, by the system's gi: all red, then an end."""
    if not (SYSTEM / "gi").is_dir():
        pytest.skip("needs the system's gi and GStreamer")
    text = program("appsink").replace("v4l2src device=/dev/video0 !", "videotestsrc pattern=red num-buffers=9 !")
    text = text.replace("pipe.stream(frames())", "pipe.stream((seen_of(f) for f in frames()), 'none')")
    check = f"""import sys
sys.path.append({str(SYSTEM)!r})
def seen_of(frame):
    print("frame", frame.shape, *frame[0, :2], *frame[-1, :2], file=sys.stderr)
    return frame
"""
    done = subprocess.run([sys.executable, "-c", check + text], capture_output=True, text=True, timeout=120)
    if "Namespace Gst not available" in done.stderr or "No module named" in done.stderr:
        pytest.skip("needs the system's gi and GStreamer")
    frames, seen = done.stderr.splitlines(), done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert set(frames) == {"frame (360, 320) 81 81 90 240"} and len(seen) == len(frames) > 1  # red of BT.601
