"""Colours of YUV: published colour bars, Pillow, and videos that FFmpeg writes and that say what their colours are."""

import numpy as np
import pytest
from graphs import picture_net
from picture_nets import network, seen
from PIL import Image

from pipeall import ArgumentError, Engine, Picture, Pipeline
from pipeall.media import sources

# White, yellow, cyan, green, magenta, red, blue, black
RGB = np.array([(1, 1, 1), (1, 1, 0), (0, 1, 1), (0, 1, 0), (1, 0, 1), (1, 0, 0), (0, 0, 1), (0, 0, 0)], float)
BLACK = (16, 128, 128)
# Y, Cb, Cr of colour bars in 8 bits, limited range: (standard, part of full colour) -> in the order of RGB. Jack,
# "Video Demystified", tables of 100 % and 75 % bars for SDTV (BT.601) and HDTV (BT.709).
BARS = {
    ("BT.601", 1.0): ((235, 128, 128), (210, 16, 146), (170, 166, 16), (145, 54, 34), (106, 202, 222), (81, 90, 240),
                      (41, 240, 110), BLACK),
    ("BT.601", 0.75): ((180, 128, 128), (162, 44, 142), (131, 156, 44), (112, 72, 58), (84, 184, 198), (65, 100, 212),
                       (35, 212, 114), BLACK),
    ("BT.709", 1.0): ((235, 128, 128), (219, 16, 138), (188, 154, 16), (173, 42, 26), (78, 214, 230), (63, 102, 240),
                      (32, 240, 118), BLACK),
    ("BT.709", 0.75): ((180, 128, 128), (168, 44, 136), (145, 147, 44), (133, 63, 52), (63, 193, 204), (51, 109, 212),
                       (28, 212, 120), BLACK),
}  # fmt: skip
# Luma of R, G and B, and what blue and red less luma are divided by, as the standards print them.
PRINTED = {
    "BT.601": ((0.299, 0.587, 0.114), 1.772, 1.402),
    "BT.709": ((0.2126, 0.7152, 0.0722), 1.8556, 1.5748),
    "BT.2020": ((0.2627, 0.6780, 0.0593), 1.8814, 1.4746),
}
STANDARDS = [(yuv, full_range) for yuv in PRINTED for full_range in (False, True)]


def codes(rgb, yuv, full_range):
    """Y, Cb, Cr of colours from 0 to 1, as the standards quantize them."""
    luma, blue, red = PRINTED[yuv]
    y = rgb @ np.array(luma)
    cb, cr = (rgb[:, 2] - y) / blue, (rgb[:, 0] - y) / red
    scaled = (255 * y, 255 * cb + 128, 255 * cr + 128) if full_range else (16 + 219 * y, 224 * cb + 128, 224 * cr + 128)
    return np.clip(np.stack(scaled, 1).round(), 0, 255).astype(np.uint8)


def allowed(full_range):
    """Grey levels: half a step of luma, and of the chroma with the largest factor; the result is a whole level."""
    return 0.5 * (1 if full_range else 255 / 219) + 0.5 * 1.8814 * (1 if full_range else 255 / 224) + 0.5


def planes(code):
    """Y of columns, and U and V of half as many: each colour is 16 pixels wide, 32 high."""
    y, u, v = (np.repeat(code[None, :, c], 32, 0).repeat(16, 1) for c in range(3))
    return y, u[::2, ::2], v[::2, ::2]


def frames(code):
    y, u, v = planes(code)
    return {
        "NV12": np.vstack([y, np.stack([u, v], 2).reshape(16, -1)]),
        "I420": np.vstack([y, np.stack([u, v]).reshape(16, -1)]),
        "YUYV": np.stack([y, np.stack([u.repeat(2, 0), v.repeat(2, 0)], 3 - 1).reshape(32, -1)], 2),
    }


def bars_of(y):
    """The colour in the middle of each bar."""
    return y[16, 8::16]


@pytest.mark.parametrize(("yuv", "part"), BARS)
@pytest.mark.parametrize("layout", ["NV12", "I420", "YUYV"])
def test_published_bars(yuv, part, layout, board):
    code = np.array(BARS[yuv, part], np.uint8)
    found = seen(frames(code)[layout], Picture(frames=layout, yuv=yuv), (32, 128), board)
    np.testing.assert_allclose(bars_of(found), 255 * part * RGB, atol=allowed(False))


@pytest.mark.parametrize(("yuv", "full_range"), STANDARDS)
@pytest.mark.parametrize("layout", ["NV12", "I420", "YUYV"])
def test_colours_that_the_standards_equations_give(yuv, full_range, layout, board):
    rgb = np.random.default_rng(3).uniform(0, 1, (24, 3))
    picture = Picture(frames=layout, yuv=yuv, full_range=full_range)
    found = seen(frames(codes(rgb, yuv, full_range))[layout], picture, (32, 16 * 24), board)
    np.testing.assert_allclose(bars_of(found), 255 * rgb, atol=allowed(full_range))


def test_the_equations_give_the_published_bars():
    for (yuv, part), code in BARS.items():
        assert np.abs(codes(part * RGB, yuv, False).astype(int) - code).max() <= 1, (yuv, part)


def test_full_range_as_pillow(board):
    code = np.random.default_rng(4).integers(0, 256, (60, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(code[None], "YCbCr").convert("RGB"), float)[0]
    found = seen(frames(code)["I420"], Picture(frames="I420", full_range=True), (32, 16 * 60), board)
    assert np.abs(bars_of(found) - expected).max() <= 1


def test_grey_is_the_luma_of_the_colours(board):
    rgb = np.random.default_rng(5).uniform(0, 1, (24, 3))
    frame = frames(codes(rgb, "BT.709", False))["NV12"]
    found = seen(frame, Picture(frames="NV12", channels="GRAY", yuv="BT.709"), (32, 16 * 24), board)
    np.testing.assert_allclose(bars_of(found)[:, 0], 255 * rgb @ (0.299, 0.587, 0.114), atol=allowed(False))


class Said:
    """A frame that says what its colours are."""

    def __init__(self, pixels, yuv, full_range):
        self.pixels, self.yuv, self.full_range = pixels, yuv, full_range

    @property
    def __array_interface__(self):
        return self.pixels.__array_interface__


def test_frames_say_their_colours_themselves(board_with_gpu):
    """One after the other, through stages, whatever the description says."""
    rgb = np.random.default_rng(6).uniform(0, 1, (8, 3))
    given = [Said(frames(codes(rgb, *said))["I420"], *said) for said in STANDARDS]
    with Engine(network((32, 128)), "big", board_with_gpu, input=Picture(frames="I420", yuv="BT.2020")) as engine:
        for frame in given:
            found = engine(frame)[0].transpose(1, 2, 0)
            np.testing.assert_allclose(bars_of(found), 255 * rgb, atol=allowed(frame.full_range))
    expected = []
    for yuv, full_range in STANDARDS:
        picture = Picture(frames="I420", yuv=yuv, full_range=full_range)
        with Engine(picture_net((24, 24)), "big", board_with_gpu, input=picture) as engine:
            expected.append(engine(frames(codes(rgb, yuv, full_range))["I420"]))
    with Pipeline(picture_net((24, 24)), "big-little:2", board_with_gpu, input=Picture(frames="I420")) as pipe:
        for found, y in zip(pipe.map(given), expected, strict=True):
            np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-4)


def test_other_colours_are_refused(board):
    with pytest.raises(ArgumentError, match=r"^yuv: expected one of BT.601, BT.709, BT.2020, got 'BT.500'"):
        Picture(yuv="BT.500")
    frame = Said(np.zeros((48, 32), np.uint8), "sRGB", False)
    with Engine(network((8, 8)), "big", board, input=Picture(frames="I420")) as engine:
        with pytest.raises(
            ArgumentError, match=r"^yuv of a frame: expected one of BT.601, BT.709, BT.2020, got 'sRGB'"
        ):
            engine(frame)


# ---- videos ----

SPACE = {"BT.601": 6, "BT.709": 1, "BT.2020": 9, None: 2}  # of FFmpeg; None: the file does not say


@pytest.fixture(scope="module")
def av():
    return pytest.importorskip("av", reason="needs pipeall[video]")


def written(av, path, code, lines, yuv, full_range, codec="ffv1", form="yuv420p"):
    """Two frames of bars, ``lines`` high, as they are: without loss but for MJPEG."""
    y, u, v = (np.tile(plane, (lines // 32, 1)) for plane in planes(code))
    frame = av.VideoFrame(y.shape[1], lines, form)
    for plane, values in zip(frame.planes, (y, u, v), strict=True):
        padded = np.zeros((values.shape[0], plane.line_size), np.uint8)
        padded[:, : values.shape[1]] = values
        plane.update(padded)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, form
        frame.colorspace = stream.codec_context.colorspace = SPACE[yuv]
        frame.color_range = stream.codec_context.color_range = {None: 0, False: 1, True: 2}[full_range]
        for pts in range(2):
            frame.pts = pts
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def read(path):
    return list(sources.Frames(sources.find([str(path)], False)))


def as_a_network_sees(shot, board):
    h, w = np.asarray(shot).shape[0] // 3 * 2, np.asarray(shot).shape[1]
    with Engine(network((h, w)), "big", board, input=Picture(frames="I420")) as engine:
        return engine(shot)[0].transpose(1, 2, 0)


@pytest.mark.parametrize(("yuv", "full_range"), STANDARDS)
def test_a_video_says_what_its_colours_are(av, yuv, full_range, board, tmp_path):
    code = codes(0.75 * RGB, yuv, full_range)
    for shot in read(written(av, tmp_path / "bars.mkv", code, 64, yuv, full_range)):
        assert (shot.yuv, shot.full_range) == (yuv, full_range)
        np.testing.assert_allclose(bars_of(as_a_network_sees(shot, board)), 255 * 0.75 * RGB, atol=allowed(full_range))
        # What is drawn upon: FFmpeg rounds each of three terms down
        np.testing.assert_allclose(bars_of(shot.rgb.astype(float)), 255 * 0.75 * RGB, atol=allowed(full_range) + 2.5)


@pytest.mark.parametrize(("lines", "yuv"), [(576, "BT.601"), (704, "BT.601"), (736, "BT.709"), (1088, "BT.709")])
def test_a_video_that_does_not_say_is_what_players_take_it_for(av, lines, yuv, board, tmp_path):
    code = codes(0.75 * RGB, yuv, False)
    shot, _ = read(written(av, tmp_path / "bars.mkv", code, lines, None, None))
    assert (shot.yuv, shot.full_range) == (yuv, False)
    np.testing.assert_allclose(bars_of(as_a_network_sees(shot, board)), 255 * 0.75 * RGB, atol=allowed(False))


def test_a_camera_of_jpegs_is_in_full_range(av, board, tmp_path):
    """Blocks of one colour: their mean is all that is kept, in steps of an eighth of the table's first value."""
    path = written(av, tmp_path / "bars.avi", codes(0.75 * RGB, "BT.601", True), 64, None, True, "mjpeg", "yuvj420p")
    shot, _ = read(path)
    assert (shot.yuv, shot.full_range) == ("BT.601", True)
    np.testing.assert_allclose(bars_of(as_a_network_sees(shot, board)), 255 * 0.75 * RGB, atol=allowed(True) + 4)


def test_other_pixel_formats_keep_their_colours(av, board, tmp_path):
    """More chroma is halved, more bits are rounded; RGB becomes BT.601. One level for each rounding of FFmpeg's."""
    from pipeall.media import video

    code = codes(0.75 * RGB, "BT.709", True)
    shot, _ = read(written(av, tmp_path / "bars.mkv", code, 64, "BT.709", True))
    frame = av.VideoFrame.from_ndarray(shot.pixels, format="yuv420p")
    frame.colorspace, frame.color_range = SPACE["BT.709"], 2
    for form in ("yuv422p", "yuv444p10le", "nv12"):
        found = video.planes(frame.reformat(format=form))
        assert (found.yuv, found.full_range) == ("BT.709", True)
        y, *chroma = (
            found.pixels.reshape(-1)[part] for part in (slice(0, 8192), slice(8192, 10240), slice(10240, None))
        )
        middles = [y.reshape(64, 128)[16, 8::16], *(plane.reshape(32, 64)[8, 4::8] for plane in chroma)]
        assert np.abs(np.stack(middles, 1).astype(int) - code).max() <= 1
    found = video.planes(av.VideoFrame.from_ndarray(shot.rgb, format="rgb24"))
    assert (found.yuv, found.full_range) == ("BT.601", False)
    picture = video.rgb(found.pixels, found.yuv, found.full_range)
    np.testing.assert_allclose(
        bars_of(picture.astype(float)), 255 * 0.75 * RGB, atol=allowed(True) + allowed(False) + 1
    )


def test_written_videos_say_what_they_are(av, tmp_path):
    """Else 720 lines and more were taken for BT.709."""
    from pipeall.media import video

    picture = np.repeat(np.tile((255 * 0.75 * RGB).round().astype(np.uint8)[None], (736, 1, 1)), 16, 1)
    with video.Writer(tmp_path / "seen.mp4") as writer:
        writer.add(picture, 0.0)
    (shot,) = read(tmp_path / "seen.mp4")
    assert (shot.yuv, shot.full_range) == ("BT.601", False)
    np.testing.assert_allclose(bars_of(shot.rgb.astype(float)), 255 * 0.75 * RGB, atol=6)
