"""The live page in a real browser: what it shows, where, and what it does when the run ends."""

import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from chromium import Chromium, program
from view_clients import FIGURES, SEVERAL, becomes, jpeg

from pipeall.media.view import View

COLOURS = {"green": (0, 128, 0), "red": (255, 0, 0), "blue": (0, 0, 255)}


@pytest.fixture(scope="module")
def browser():
    if program() is None:
        pytest.skip("no chromium: apt-get install chromium")
    with Chromium() as browser:
        yield browser


@pytest.fixture
def tabs(browser):
    """Opens pages, and closes them afterwards; none may have broken its policy, failed, or asked anybody else."""
    opened = []

    def open_tab(address, width=1280, height=800, **screen):
        tab = browser.open(address)
        tab.screen(width, height, **screen)
        opened.append((tab, urlsplit(address).netloc))
        return tab

    yield open_tab
    for tab, place in opened:
        asked = [urlsplit(event["request"]["url"]) for event in tab.events("Network.requestWillBeSent")]
        failed = [event["entry"] for event in tab.events("Log.entryAdded") if event["entry"]["source"] != "network"]
        assert {url.netloc for url in asked if url.scheme not in ("data", "blob")} <= {place}
        assert not tab.events("Runtime.exceptionThrown") and not failed
        tab.close()


def says(tab, words):
    tab.until(f"document.getElementById('status')?.textContent?.includes({words!r})")


def shows_number(tab, fps):
    tab.until(f"document.getElementById('fps')?.textContent === {fps!r}")


def colour_of(tab):
    """The middle of the picture, as the screen has it."""
    x, y = tab.value(
        "(() => { const r = document.getElementById('pictures').getBoundingClientRect();"
        " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    return tab.screenshot().getpixel((round(x), round(y)))


def is_colour(tab, name):
    """Whether it is that one; JPEG and the screen round."""
    return max(abs(a - b) for a, b in zip(colour_of(tab), COLOURS[name], strict=True)) <= 8


@contextmanager
def running(view, colour, fps):
    """Shows pictures as a run does, 30 in a second."""
    stop, picture = threading.Event(), jpeg(colour, (640, 360))

    def run():
        while not stop.wait(1 / 30):
            view.show(picture, FIGURES | {"fps": fps})

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("host", [None, "127.0.0.1"], ids=["loopback", "token"])
def test_picture_and_numbers(tabs, host):
    with View(host) as view, running(view, "green", 29.97):
        tab = tabs(view.address)
        says(tab, "Live")
        shows_number(tab, "30.0")
        assert becomes(lambda tab=tab: is_colour(tab, "green"))
        texts = {name: tab.text(name) for name in ("network", "latency_p50_ms", "latency_p95_ms", "dropped", "plan")}
        assert texts == {
            "network": "yolox_nano",
            "latency_p50_ms": "41.2 ms",
            "latency_p95_ms": "55.5 ms",
            "dropped": "3",
            "plan": "B-G:7-L:20",
        }
        assert tab.value("[...document.querySelectorAll('#answer li')].map((e) => e.textContent)") == FIGURES["answer"]
        assert tab.value("document.title") == "yolox_nano – pipeall"
        bars = tab.value(
            "[...document.querySelectorAll('#units li')].map((e) => { const bar = e.querySelector('.bar'); return ["
            "e.innerText.replace(/\\s+/g, ' ').trim(), bar.ariaLabel, bar.ariaValueNow,"
            " Math.round(100 * bar.firstElementChild.offsetWidth / bar.clientWidth)]; })"
        )
        assert [bar[:3] for bar in bars] == [
            ["bigx4 31.1 ms, 93 %", "Use of bigx4", "93"],
            ["gpu 16.1 ms, 50 %", "Use of gpu", "50"],
            ["littlex2 5.0 ms, 15 %", "Use of littlex2", "15"],
        ]
        assert all(abs(bar[3] - int(bar[2])) <= 1 for bar in bars)


def test_a_picture_takes_the_place_of_another(tabs):
    """Also of another size; fewer stages and lines leave no rest."""
    with View() as view:
        view.show(jpeg("red"), FIGURES)
        tab = tabs(view.address)
        shows_number(tab, "30.0")
        assert becomes(lambda tab=tab: is_colour(tab, "red"))
        view.show(jpeg("red"), {"fps": 1})
        shows_number(tab, "1.0")
        assert becomes(lambda tab=tab: is_colour(tab, "red")) and tab.text("plan") == "–"
        assert tab.value("document.querySelectorAll('#units li').length") == 0
        view.show(jpeg("blue", (300, 500)), {"fps": 2, "answer": "one\ntwo"})
        shows_number(tab, "2.0")
        assert becomes(lambda tab=tab: is_colour(tab, "blue"))
        assert tab.value("[...document.querySelectorAll('#answer li')].map((e) => e.textContent)") == ["one", "two"]


def test_two_viewers_and_one_that_vanishes(tabs, browser):
    with View() as view:
        with running(view, "blue", 12.34):
            one, two, gone = tabs(view.address), tabs(view.address), browser.open(view.address)
            for tab in (one, two, gone):
                shows_number(tab, "12.3")
                assert becomes(lambda tab=tab: is_colour(tab, "blue"))
            gone.close()
        with running(view, "red", 56.78):
            for tab in (one, two):
                shows_number(tab, "56.8")
                assert becomes(lambda tab=tab: is_colour(tab, "red"))


def test_the_run_ends_and_starts_again(tabs):
    with View() as view:
        view.show(jpeg("red"), FIGURES)
        tab = tabs(view.address)
        says(tab, "Live")
    says(tab, "The run has ended")
    assert (
        becomes(lambda tab=tab: is_colour(tab, "red"))
        or tab.value("document.getElementById('still').className") == "still"
    )
    with View(None, urlsplit(view.address).port) as again, running(again, "blue", 7):
        says(tab, "Live")
        shows_number(tab, "7.0")
        assert becomes(lambda tab=tab: is_colour(tab, "blue"))


def test_a_run_that_starts_again_with_another_token(tabs):
    with View("127.0.0.1") as view:
        view.show(jpeg(), FIGURES)
        tab = tabs(view.address)
        says(tab, "Live")
    with View("127.0.0.1", urlsplit(view.address).port):
        says(tab, "an address of its own")


def test_a_wrong_token_shows_nothing(browser):
    with View("127.0.0.1") as view:
        view.show(jpeg("red"), FIGURES)
        tab = browser.open(view.address[:-2] + "/")
        assert becomes(lambda: statuses(tab)) and statuses(tab) == {403}
        assert tab.value("document.querySelector('canvas')") is None
        tab.close()


def test_a_pause_shows_nothing_new_and_frees_the_place(tabs):
    with View() as view, running(view, "green", 1):
        tab = tabs(view.address)
        shows_number(tab, "1.0")
        tab.value("document.getElementById('pause').click()")
        says(tab, "Paused")
        with running(view, "red", 2):
            assert tab.value("new Promise((r) => setTimeout(r, 600)).then(() => 1)") == 1
        assert tab.text("fps") == "1.0" and tab.text("status") == "Paused"
        assert tab.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
        tab.value("document.getElementById('pause').click()")
        says(tab, "Live")


def statuses(tab):
    """Of answers that came over the network; the browser's own page of an error is none."""
    answers = [event["response"] for event in tab.events("Network.responseReceived")]
    return {answer["status"] for answer in answers if answer["url"].startswith("http")}


def luminance(colour):
    parts = (part / 255 for part in colour)
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_several_networks_have_a_row_each(tabs):
    """In place of the speed of one, and back."""
    with View() as view:
        view.show(jpeg("red"), SEVERAL)
        tab = tabs(view.address)
        rows = "[...document.querySelectorAll('#rows tr')].map((e) => [...e.children].map((c) => c.textContent))"
        assert becomes(lambda tab=tab: len(tab.value(rows)) == 2)
        assert tab.value(rows) == [
            ["det", "14.9", "15.0", "41.2 ms", "79.0 ms", "3"],
            ["<b>rec</b>", "61.0", "–", "5.0 ms", "9.1 ms", "0"],
        ]
        assert tab.value("[at('several').hidden, at('one').hidden]") == [False, True]
        assert tab.value("document.querySelector('#units li').innerText.replace(/\\s+/g, ' ').trim()") == "big 71 %"
        view.show(jpeg("red"), FIGURES)
        shows_number(tab, "30.0")
        assert tab.value("[at('several').hidden, at('one').hidden]") == [True, False]


CONTRASTS = """
[...document.querySelectorAll("h1,h2,p,dt,dd,th,td,button,li,.words span")].filter((e) => e.innerText).map((e) => {
  let under = e;
  while (getComputedStyle(under).backgroundColor === "rgba(0, 0, 0, 0)") under = under.parentElement;
  return [getComputedStyle(e).color, getComputedStyle(under).backgroundColor].map((c) => c.match(/\\d+/g).map(Number));
})
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "mobile"), [(320, True), (390, True), (1280, False)])
def test_it_can_be_read(tabs, scheme, width, mobile):
    """On a phone and a screen, light and dark: nothing sticks out sideways, and WCAG AA's contrast."""
    figures = FIGURES | {"network": "a_rather_long_name_of_a_network_" * 3, "plan": "B-G:7-L:20-" * 9}
    with View() as view:
        view.show(jpeg("green", (1920, 1080)), figures)
        tab = tabs(view.address, width, 900, mobile=mobile, scheme=scheme)
        shows_number(tab, "30.0")
        assert tab.value("document.documentElement.scrollWidth") <= width
        found = tab.value(CONTRASTS)
        assert len(found) > 20
        view.show(jpeg("green"), SEVERAL)
        assert becomes(lambda tab=tab: tab.value("document.querySelectorAll('#rows tr').length") == 2)
        assert tab.value("document.documentElement.scrollWidth") <= width
        found += tab.value(CONTRASTS)
        for text, under in found:
            dark, bright = sorted((luminance(text), luminance(under)))
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (text, under)
        assert (sum(found[0][1]) < 384) == (scheme == "dark")


def test_it_can_be_heard(tabs):
    """What a screen reader gets: names and roles."""
    with View() as view:
        view.show(jpeg(), FIGURES)
        tab = tabs(view.address)
        shows_number(tab, "30.0")
        nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
        heard = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node}
        names = {role: {name for other, name in heard if other == role} for role, _ in heard}
        assert names["heading"] == {"yolox_nano", "Speed", "Use of each unit", "Found"}
        assert names["meter"] == {"Use of bigx4", "Use of gpu", "Use of littlex2"}
        assert "status" in names and names["button"] == {"Pause"}
        assert any("latest picture" in name for name in names.get("image", set()) | names.get("img", set()))
