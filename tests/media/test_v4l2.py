"""Cameras of Linux: what is read of a device of known images, by structures that are those of the kernel's header."""

import ctypes
import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from preload import built

from pipeall import ArgumentError
from pipeall.media import camera, v4l2

ROWS, COLUMNS = 32, 48
STRUCTURES = {  # ours -> the kernel's, and the fields of other names
    "Capability": ("v4l2_capability", {"bus": "bus_info", "device": "device_caps"}),
    "FormatDescription": ("v4l2_fmtdesc", {"fourcc": "pixelformat", "bus_code": "mbus_code"}),
    "Interval": ("v4l2_frmivalenum", {"fourcc": "pixel_format", "shortest": "stepwise.min", "longest": "stepwise.max",
                                      "step": "stepwise.step"}),
    "Pixels": ("v4l2_pix_format", {"fourcc": "pixelformat", "row_bytes": "bytesperline", "size_bytes": "sizeimage",
                                   "private": "priv", "encoding": "ycbcr_enc", "transfer": "xfer_func"}),
    "PlaneFormat": ("v4l2_plane_pix_format", {"row_bytes": "bytesperline", "size_bytes": "sizeimage"}),
    "PixelsOfPlanes": ("v4l2_pix_format_mplane", {"fourcc": "pixelformat", "planes": "plane_fmt", "count": "num_planes",
                                                  "encoding": "ycbcr_enc", "transfer": "xfer_func"}),
    "Format": ("v4l2_format", {"of": "fmt"}),
    "BuffersRequest": ("v4l2_requestbuffers", {}),
    "Plane": ("v4l2_plane", {"used_bytes": "bytesused", "size_bytes": "length", "place": "m", "begin": "data_offset"}),
    "Buffer": ("v4l2_buffer", {"used_bytes": "bytesused", "s": "timestamp.tv_sec", "us": "timestamp.tv_usec",
                               "place": "m", "reserved": "reserved2"}),
    "Export": ("v4l2_exportbuffer", {"descriptor": "fd"}),
}  # fmt: skip
CODES = {
    "QUERY_CAPABILITY": "QUERYCAP", "LIST_FORMATS": "ENUM_FMT", "GET_FORMAT": "G_FMT", "SET_FORMAT": "S_FMT",
    "LIST_INTERVALS": "ENUM_FRAMEINTERVALS", "REQUEST_BUFFERS": "REQBUFS", "QUERY_BUFFER": "QUERYBUF",
    "GIVE_BUFFER": "QBUF", "TAKE_BUFFER": "DQBUF", "EXPORT": "EXPBUF", "START": "STREAMON", "STOP": "STREAMOFF",
}  # fmt: skip

# Each camera is opened in the one child: the library in front of it reads the environment then.
CHILD = """
import json, os, sys
from pathlib import Path
import numpy as np
from pipeall import ArgumentError
from pipeall.media import camera, sources

found, camera.DEVICES = {}, Path(sys.argv[2])
for number, (words, settings) in enumerate(json.load(sys.stdin)):
    for name in [name for name in os.environ if name.startswith("CAMERA_")]:
        del os.environ[name]
    os.environ.update(settings)
    told, times = [], []
    try:
        for shot in sources.Frames(sources.find([words], False), tell=told.append):
            found[f"{number}.{shot.number}"], found[f"{number}.{shot.number}.rgb"] = shot.pixels, shot.rgb
            times.append([shot.time_s, shot.yuv, shot.full_range])
    except ArgumentError as error:
        told.append(str(error))
    print(json.dumps([told, times, camera.table()[0]]))
np.savez(sys.argv[1], **found)
"""

HOLDER = """
import json, os, sys
import numpy as np
from pipeall import ArgumentError
from pipeall.media import camera

def descriptors():
    return sum("memfd:buffer" in os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
               if os.path.lexists(f"/proc/self/fd/{n}"))

def same(planes, copy):
    if planes.dma_buf:
        descriptor, address, nbytes = planes.dma_buf
        begin = planes.pixels.ctypes.data - address
        if os.pread(descriptor, nbytes, 0)[begin:begin + copy.nbytes] != copy.tobytes():
            return False
    return np.array_equal(planes.pixels, copy)

most, held, firsts, inside = int(sys.argv[1]), [], [], 0
try:
    for planes, time_s in camera.frames("camera:7", "/dev/video7", None, print, in_place=True):
        held.append((planes, planes.pixels.copy()))
        inside += planes.dma_buf is not None
        firsts.append(int(planes.pixels[0, 0]))
        del planes, held[:max(0, len(held) - most)]
        assert all(same(*one) for one in held)
except ArgumentError as error:
    ended = str(error)
assert all(same(*one) for one in held)
before = descriptors()
held.clear()
print(json.dumps([ended, firsts, inside, before, descriptors()]))
"""


def plane(number, rows, columns, unit=1):
    """The first image's, as native/v4l2_camera.c has it."""
    row, column = np.mgrid[:rows, :columns]
    return (20 + 30 * number + row + column // unit + 30 * (column % unit)).astype(np.uint8)


@pytest.fixture(scope="module")
def av():
    return pytest.importorskip("av", reason="needs pipeall[video]")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return built("v4l2_camera", tmp_path_factory.mktemp("v4l2"), "-Wall", "-Werror")


@pytest.fixture(scope="module")
def seen(library, tmp_path_factory):
    """Runs cameras, each a word and the settings of the library, in one process: told, times, listed and frames."""

    def run(*cameras):
        path = tmp_path_factory.mktemp("seen") / "frames.npz"
        devices = path.with_name("devices")
        (devices / "video7").mkdir(parents=True)
        (devices / "video7" / "name").write_text("Cam\n")
        command = [sys.executable, "-c", CHILD, str(path), str(devices)]
        environment = os.environ | {"LD_PRELOAD": str(library)}
        given = json.dumps([[word, {f"CAMERA_{k}": str(v) for k, v in of.items()}] for word, of in cameras])
        done = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        frames = np.load(path)
        return [
            [*json.loads(line), {k.partition(".")[2]: frames[k] for k in frames.files if k.startswith(f"{number}.")}]
            for number, line in enumerate(done.stdout.splitlines())
        ]

    return run


def test_the_structures_are_the_kernels(tmp_path):
    """Sizes, offsets and codes of calls, by a program that has its header."""
    asked, expected = [], []
    for ours, (theirs, names) in STRUCTURES.items():
        structure = getattr(v4l2, ours)
        asked.append(f"sizeof(struct {theirs})")
        expected.append(ctypes.sizeof(structure))
        for name in (name for name, of in vars(structure).items() if hasattr(of, "offset")):
            if ours == "PlaneFormat" or name != "reserved" or theirs == "v4l2_capability":
                asked.append(f"offsetof(struct {theirs}, {names.get(name, name)})")
                expected.append(getattr(structure, name).offset)
    for ours, theirs in CODES.items():
        asked.append(f"VIDIOC_{theirs}")
        expected.append(getattr(v4l2, ours))
    lines = "".join(f'printf("%lu\\n", (unsigned long)({word}));\n' for word in asked)
    source = tmp_path / "sizes.c"
    source.write_text(
        f"#include <linux/videodev2.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{{lines}}}"
    )
    subprocess.run(["cc", "-o", tmp_path / "sizes", source], check=True)
    numbers = subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(asked, map(int, numbers), strict=True)) == dict(zip(asked, expected, strict=True))


@pytest.mark.parametrize("several", [0, 1])
def test_every_layout_of_memory(av, seen, several):
    """Rows that lie apart, planes in one piece or in several, behind a beginning that is not theirs."""
    names = ["NV12", "YU12", "NV16", "YUYV", "UYVY", "RGB3", "BGR3", "XR24", "GREY"]
    names += ["NM12", "NM16", "YM12"] * several
    settings = {"PLANES": several, "PAD": 16}
    luma, half, quarter = plane(0, ROWS, COLUMNS), plane(1, ROWS // 2, COLUMNS, 2), ROWS * COLUMNS // 4
    whole, packed = plane(1, ROWS, COLUMNS, 2), plane(0, ROWS, 2 * COLUMNS, 4)
    triple, four = (plane(0, ROWS, n * COLUMNS, n) for n in (3, 4))
    full = {  # luma, and chroma in full resolution of columns
        "YUYV": (packed[:, ::2], packed[:, 1::4], packed[:, 3::4]),
        "UYVY": (packed[:, 1::2], packed[:, ::4], packed[:, 2::4]),
    }
    full |= dict.fromkeys(("NV16", "NM16"), (luma, whole[:, ::2], whole[:, 1::2]))
    rgb = {
        "RGB3": triple.reshape(ROWS, COLUMNS, 3), "BGR3": triple.reshape(ROWS, COLUMNS, 3)[..., ::-1],
        "XR24": four.reshape(ROWS, COLUMNS, 4)[..., 2::-1], "GREY": np.stack([luma] * 3, 2),
    }  # fmt: skip
    for name, (told, times, listed, frames) in zip(
        names, seen(*(("camera:7", settings | {"FORMATS": name}) for name in names)), strict=True
    ):
        assert told == ["camera:7: ended by no such device"], name  # it is unplugged
        assert [time for time, *_ in times] == pytest.approx([0, 0.04, 0.08]) and len(frames) == 6
        assert listed == f"camera:7  Cam: 48x32, {name}"
        first = frames["0"]
        y, u, v = first[:ROWS], first[ROWS:].reshape(-1)[:quarter], first[ROWS:].reshape(-1)[quarter:]
        if name in rgb:
            assert np.abs(frames["0.rgb"].astype(int) - rgb[name]).max() <= 6, name
            continue
        assert [pair[1:] for pair in times] == [["BT.709", True]] * 3
        assert np.array_equal(frames["2"][:ROWS], y + np.uint8(6)), name
        if name in full:
            expected, *chroma = full[name]
            means = [part.astype(int).reshape(ROWS // 2, 2, -1).mean(1) for part in chroma]
            assert np.array_equal(y, expected), name
            for got, mean in zip((u, v), means, strict=True):
                assert np.abs(got.reshape(mean.shape) - mean).max() <= 1, name
            continue
        parts = (plane(1, ROWS // 2, COLUMNS // 2), plane(2, ROWS // 2, COLUMNS // 2))
        parts = (half[:, ::2], half[:, 1::2]) if name.startswith("N") else parts
        assert np.array_equal(y, luma), name
        assert np.array_equal(u, parts[0].reshape(-1)) and np.array_equal(v, parts[1].reshape(-1)), name


def test_what_is_chosen_and_what_goes_wrong(av, seen, tmp_path):
    photo = tmp_path / "coded.jpg"
    Image.fromarray(np.full((720, 1280, 3), (200, 40, 90), np.uint8)).save(photo, quality=95)
    coded, broken = {"FORMATS": "YUYV MJPG", "CODED": photo}, tmp_path / "broken.jpg"
    broken.write_bytes(photo.read_bytes()[:300])
    large, small, damaged, wrong, busy, away, silent, sensor, meta, none = seen(
        ("camera:7:1280x720", coded),
        ("camera:7:640x480", coded | {"IMAGES": 1}),
        ("camera:7", {"FORMATS": "NV12", "DAMAGED": 1}),
        ("camera:7", {"FORMATS": "MJPG", "CODED": broken, "IMAGES": 1}),
        ("camera:7", {"FORMATS": "NV12", "ERROR": errno.EBUSY}),
        ("camera:7", {"FORMATS": "NV12", "ERROR": errno.EACCES}),
        ("camera:7", {"FORMATS": "NV12", "SILENT": 1}),
        ("camera:7", {"FORMATS": "pRAA BG10", "PLANES": 1}),
        ("camera:7", {"FORMATS": "NV12", "META": 1}),
        ("camera:8", {"FORMATS": "NV12"}),
    )
    assert len(large[3]) == 6 and large[3]["0"].shape == (1080, 1280)  # coded: three times as many a second
    assert np.abs(large[3]["0.rgb"].astype(int) - (200, 40, 90)).max() <= 4 and large[1][0][2]
    assert small[3]["0"].shape == (720, 640)  # as many without decoding
    assert small[1][0][1:] == ["BT.709", True]
    assert damaged[0] == ["camera:7: an image came damaged", "camera:7: ended by no such device"]
    assert len(damaged[3]) == 4 and [time for time, *_ in damaged[1]] == pytest.approx([0, 0.08])
    assert wrong[0][0].startswith("camera:7: a frame cannot be decoded: Invalid data")
    assert busy[0] == ["camera:7: expected a camera, got device or resource busy; another program has it"]
    assert "permission denied; members of the group video may read it" in away[0][0] and "group video" in away[2]
    assert silent[0] == ["camera:7: gave no image for 10 s"]
    assert "expected a format such as NV12, YUYV or MJPG, got pRAA BG10; a camera that needs libcamera" in sensor[0][0]
    assert "gives pRAA BG10 only, which pipeall does not read" in sensor[2]
    assert meta[0] == ["camera:7: expected a camera, got no such device"] and meta[2].startswith("no camera found")
    assert none[0] == ["camera:8: there is no camera /dev/video8; there are camera:7 (Cam)"]


@pytest.mark.parametrize("several", [0, 1])
@pytest.mark.parametrize(("held", "inside", "open_"), [(0, 20, 0), (2, 20, 2), (12, 8, 4)])
def test_buffers_are_lent(av, library, held, inside, open_, several):
    """I420 in place: a buffer of six is not written again while anybody has it, and copied where two are left."""
    settings = {"FORMATS": "YU12", "PLANES": several, "EXPORT": 1, "IMAGES": 20}
    environment = os.environ | {"LD_PRELOAD": str(library)} | {f"CAMERA_{k}": str(v) for k, v in settings.items()}
    command = [sys.executable, "-c", HOLDER, str(held)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    ended, firsts, found, before, after = json.loads(done.stdout)
    assert ended == "camera:7: ended by no such device"
    assert firsts == [20 + 3 * i for i in range(20)]  # each once, in order
    assert (found, before, after) == (inside, open_, 0)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((8, 0, 0), ("BT.601", False)),  # sRGB, as webcams say
        ((3, 0, 0), ("BT.709", False)),
        ((10, 0, 0), ("BT.2020", False)),
        ((7, 0, 0), ("BT.601", True)),  # JPEG
        ((7, 2, 2), ("BT.709", False)),
        ((1, 3, 1), ("BT.601", True)),
    ],
)
def test_colours(numbers, expected):
    """By V4L2_MAP_YCBCR_ENC_DEFAULT and V4L2_MAP_QUANTIZATION_DEFAULT of the kernel's header."""
    assert camera.colours(v4l2.Layout("NV12", COLUMNS, ROWS, (COLUMNS,), numbers)) == expected


def test_an_image_that_is_too_short():
    layout = v4l2.Layout("NV12", COLUMNS, ROWS, (COLUMNS,), (8, 0, 0))
    image = v4l2.Image([np.zeros(COLUMNS * ROWS * 3 // 2 - 1, np.uint8)], 0.0, False)
    with pytest.raises(ArgumentError, match="expected 16 rows of 48 bytes, 48 apart, got 2303 bytes"):
        camera.as_planes(layout, image)
