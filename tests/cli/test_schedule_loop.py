"""What ``pipeall schedule`` is made of: cameras that networks share, and the pictures of its page."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from commands import invoke  # noqa: F401 skips without pipeall[cli]

from pipeall.cli.schedule.schedule_file import ScheduleFile
from pipeall.cli.schedule.schedule_loop import Sources
from pipeall.cli.schedule.schedule_page import Tile
from pipeall.media import sources, video
from pipeall.media.crops import Crop
from pipeall.pipeline.live import LiveResult


@pytest.fixture
def cameras(monkeypatch):
    """Cameras that give twenty frames; which were opened."""
    opened = []

    def frames(source, report, in_place=False):
        opened.append(source.name)
        return ((np.full((4, 6, 3), number, np.uint8), number / 10) for number in range(20))

    monkeypatch.setattr(sources, "opened", frames)
    monkeypatch.setattr(sources, "RETRY_S", 0.01)
    monkeypatch.setattr(video, "package", lambda: None)
    return opened


def loaded(folder, text):
    (folder / "s.toml").write_text(text)
    return ScheduleFile.load(str(folder / "s.toml"))


def network(name, source, more=""):
    return f'[networks.{name}]\nmodel = "squeezenet"\nsource = {source}\n{more}\n'


def read(feeds):
    """What comes of each source of each network, each on a thread of its own."""
    found = {}

    def go_through(network, name, frames):
        found[network, name] = [frame.pixels[0, 0, 0].item() for frame in frames]

    threads = [
        threading.Thread(target=go_through, args=(network, name, frames))
        for network, each in feeds.items()
        for name, frames in each.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return found


def test_a_camera_of_several_networks_is_opened_once(tmp_path, cameras):
    text = network("a", '["camera:0", "camera:1"]') + network("b", '"camera:0"') + network("c", '"camera:2"')
    shared = Sources(loaded(tmp_path, "frames = 20\n" + text), lambda error: None)
    assert shared.drops == {"a": "oldest", "b": "oldest", "c": "oldest"}
    found = read({name: shared.of(name) for name in "abc"})
    shared.close()
    everything = list(range(20))
    assert found == {
        ("a", "camera:0"): everything, ("a", "camera:1"): everything, ("b", "camera:0"): everything,
        ("c", "camera:2"): everything,
    }  # fmt: skip
    assert sorted(set(cameras)) == ["camera:0", "camera:1", "camera:2"]
    assert cameras.count("camera:0") <= 2  # again at most after its end, for who waits


def test_a_camera_alone_in_its_network_is_tried_again_beside_others(tmp_path, cameras):
    told = []
    text = "frames = 45\n" + network("a", '"camera:0"') + network("b", '"camera:1"')
    found = Sources(loaded(tmp_path, text), told.append)
    numbers = read({"a": found.of("a")})["a", "camera:0"]
    found.close()
    assert numbers == [*range(20), *range(20), *range(5)] and cameras == ["camera:0"] * 3
    assert "camera:0: gives no more frames; it is tried again" in told[0] and told[1] == "camera:0 is back"


def test_pixels_are_alike_where_a_photo_is_among_videos(tmp_path, cameras):
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    both = loaded(tmp_path, network("a", '"camera:0"') + network("b", '"a.png"'))
    videos = loaded(tmp_path, network("a", '"camera:0"'))
    assert Sources(both, print).layout == "RGB" and Sources(videos, print).layout == "I420"


def root(number, seconds=0.0):
    return LiveResult(number, SimpleNamespace(), None, None, int(seconds * 1e9), 0)


def part(of, number, last=False):
    return Crop(np.zeros((1, 1, 3), np.uint8), of, None, number, (0, 0, 1, 1), last)


def test_a_picture_is_shown_when_all_its_parts_are_answered():
    tile = Tile()
    assert tile.picture() is None
    first, second = root(0), root(1, 0.1)
    tile.newest = first
    assert tile.picture() == (first, {})
    tile.add_part("rec", part(first, 0), "cat")
    assert tile.picture() == (first, {})
    tile.newest = second
    tile.add_part("rec", part(first, 2, last=True), "dog")
    assert tile.picture() == (first, {0: "cat", 2: "dog"})
    tile.add_part("rec", part(second, 0, last=True), "bird")
    tile.add_part("more", part(second, 0, last=True), "robin")
    assert tile.picture() == (second, {0: "bird, robin"})
    tile.newest = root(2, 5.0)  # the chain has fallen far behind
    assert tile.picture() == (tile.newest, {})
