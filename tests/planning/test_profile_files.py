"""Files of profiles and plans: round trips, atomic writing, and that wrong ones are refused by name, never crash."""

import copy
import json
import os
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans_reference import INF, chain, random_profile

from pipeall.errors import ArgumentError
from pipeall.files import MAX_BYTES, dumps, read_json, write_json, write_text
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.profile import Link, Profile, UnitTimes

GRAPH = chain(4)
PROFILE = Profile(
    network="chain4",
    groups=tuple(group.name for group in GRAPH.groups),
    crossing_bytes=random_profile(GRAPH).crossing_bytes,
    units={
        "big": UnitTimes((1.5, 2.25, 0.000001, 4.0), (0.5, 0.0, 0.0, 0.1), (5.0, 6.0, 7.0, 8.0)),
        "bigx3": UnitTimes((1.0, INF, 3.0, 4.0), (0.0,) * 4, refused={2: "no kernel"}),
        "gpu": UnitTimes((1.0, 2.0, 3.0, 4.0), (0.0,) * 4),
    },
    contention={"big": {"gpu": (1.0, 1.1, 1.25, 2.0)}},
    same_pipeline={"gpu": {"bigx3": (1.5, 1.0, 1.0, 1.75)}},
    links={
        ("big", "gpu"): Link((16, 64), (0.5, 0.75), (1.0, 2.0), (0.25, 0.5)),
        ("host", "big"): Link((1,), (0.0,) * 1, (1.0,), (0.0,)),
    },
    idle_w=2.5,
    about={"machine": "test", "before": {"temperature_c": 40.5}},
    modelled=True,
)
CONTENT = json.loads(json.dumps({"format": "pipeall.profile/1", **PROFILE.to_dict()}))


def test_profiles_survive_a_round_trip(tmp_path):
    path = tmp_path / "profile.json"
    PROFILE.save(path)
    assert Profile.load(path) == PROFILE
    Profile.load(path).check_network(GRAPH)
    assert path.read_text().startswith('{\n "format": "pipeall.profile/1",\n "network": "chain4",\n')
    again = tmp_path / "again.json"
    Profile.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), infinite=st.sampled_from([0.0, 0.5]), power=st.booleans(), ties=st.booleans())
def test_random_profiles_survive_a_round_trip(seed, infinite, power, ties):
    """Exactly: they have six decimals."""
    profile = random_profile(GRAPH, ("big", "bigx1", "little", "gpu"), seed, infinite, power, ties)
    assert Profile.from_dict(json.loads(dumps(profile.to_dict())), "text") == profile


def test_times_are_rounded_to_nanoseconds():
    profile = random_profile(chain(1), ("big",))
    content = Profile.from_dict({**profile.to_dict(), "units": {"big": {"ms": [1 / 3], "half_iqr_ms": [1e-9]}}}, "text")
    assert content.to_dict()["units"]["big"] == {"ms": [0.333333], "half_iqr_ms": [0.0]}


def test_a_profile_that_does_not_say_whether_it_is_modelled_was_measured():
    assert not Profile.from_dict({key: value for key, value in CONTENT.items() if key != "modelled"}, "text").modelled


def changed(*path: str, to) -> dict:
    content = copy.deepcopy(CONTENT)
    inner = content
    for key in path[:-1]:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[path[-1]] = to
    return content


@pytest.mark.parametrize(
    "content, message",
    [
        (changed("format", to="pipeall.plan/1"), "expected format 'pipeall.profile/1', got 'pipeall.plan/1'"),
        (changed("format", to="pipeall.profile/2"), "expected format 'pipeall.profile/1', got 'pipeall.profile/2'"),
        (changed("format", to=None), "expected format 'pipeall.profile/1', got None"),
        ([1, 2], "expected format 'pipeall.profile/1', got 'list'"),
        (changed("groups", to=[]), r"groups: expected a list of names, got \[\]"),
        (changed("groups", to=["a", 2, "c", "d"]), "groups: expected a list of names"),
        (changed("groups", to=["a", "b"]), "crossing_bytes: expected a list of 3 numbers"),
        (changed("crossing_bytes", to=[1, 2, 3, 4, -5]), "crossing_bytes: expected numbers from 0 to"),
        (changed("network", to=5), "network: expected text, got 5"),
        (changed("units", to=[]), "units: expected an object, got list"),
        (changed("units", "big", to=3), "units.big: expected an object, got int"),
        (
            changed("units", "tpu", to={"ms": [1] * 4, "half_iqr_ms": [0] * 4}),
            "expected big, mid, little, gpu, npu or cpu",
        ),
        (changed("units", "gpux2", to={"ms": [1] * 4, "half_iqr_ms": [0] * 4}), "gpu has none to choose from"),
        (changed("units", "big", "ms", to=[1, 2, 3]), "units.big: ms: expected a list of 4 numbers"),
        (changed("units", "big", "ms", to=[1, 2, 3, -1]), "units.big: ms: expected numbers from 0 to"),
        (changed("units", "big", "ms", to=[1, 2, 3, "4"]), "units.big: ms: expected numbers from 0 to"),
        (changed("units", "big", "ms", to=[1, 2, 3, True]), "units.big: ms: expected numbers from 0 to"),
        (changed("units", "big", "ms", to=[1, 2, 3, 10**400]), "units.big: ms: expected numbers from 0 to"),
        (changed("units", "big", "ms", to=[0, 0, 0, 0]), "units.big: ms: expected a time above 0"),
        (changed("units", "big", "half_iqr_ms", to=[1, 2, 3, None]), "units.big: half_iqr_ms: expected numbers"),
        (
            changed("units", "big", to={"ms": [1] * 4, "spread_ms": [0] * 4}),
            "units.big: half_iqr_ms: expected a list of 4",
        ),  # an older file
        (changed("units", "big", "power_w", to=[1, 2, 3]), "units.big: power_w: expected a list of 4 numbers"),
        (
            changed("units", "bigx3", "refused", to={"5": "x"}),
            "units.bigx3: refused: expected group indices from 1 to 4",
        ),
        (changed("units", "bigx3", "refused", to={"0": "x"}), "refused: expected group indices from 1 to 4"),
        (changed("units", "bigx3", "refused", to={"9" * 5000: "x"}), "refused: expected group indices from 1 to 4"),
        (changed("units", "bigx3", "refused", to={"2": 5}), "units.bigx3: refused: 2: expected text, got 5"),
        (changed("contention", "big", to=7), "contention.big: expected an object, got int"),
        (changed("contention", "big", "gpu", to=[1, 1, 1]), "contention.big: gpu: expected a list of 4 numbers"),
        (changed("contention", "big", "gpu", to=[1, 1, 1, 0]), "contention.big: gpu: expected numbers from 0.1 to"),
        (changed("contention", "big", "tpu", to=[1, 1, 1, 1]), "expected big, mid, little, gpu, npu or cpu"),
        (changed("same_pipeline", to=[]), "same_pipeline: expected an object, got list"),
        (changed("same_pipeline", "gpu", "bigx3", to=[1, 1]), "same_pipeline.gpu: bigx3: expected a list of 4 numbers"),
        (changed("same_pipeline", "gpu", "big7", to=[1, 1, 1, 1]), "expected big, mid, little, gpu, npu or cpu"),
        (changed("links", to={"a": 1}), "links: expected a list of objects"),
        (changed("links", to=[5]), r"links\[0\]: expected an object, got int"),
        (changed("links", "0", "from", to=1), r"links\[0\]: from: expected text, got 1"),
        (changed("modelled", to="yes"), "modelled: expected true or false, got 'yes'"),
        (changed("modelled", to=None), "modelled: expected true or false, got None"),
        (changed("links", "0", "to", to="B"), r"links\[0\]: to: expected another end than 'big', got 'B'"),
        (changed("links", "0", "to", to="nowhere"), "expected big, mid, little, gpu, npu or cpu"),
        (changed("links", "0", "bytes", to=[64, 16]), r"links\[0\]: bytes: expected increasing sizes"),
        (changed("links", "0", "bytes", to=[]), r"links\[0\]: bytes: expected increasing sizes"),
        (changed("links", "0", "send_ms", to=[1]), r"links\[0\]: send_ms: expected a list of 2 numbers"),
        (changed("idle_w", to="much"), "idle_w: expected a number from 0 to 1e[+]15, got 'much'"),
        (changed("idle_w", to=10**400), "idle_w: expected a number from 0 to"),
        (changed("about", to=[1]), "about: expected an object, got list"),
    ],
)
def test_wrong_profiles_are_refused_by_entry(tmp_path, content, message):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ArgumentError, match=message) as error:
        Profile.load(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), value=JSON | st.sampled_from([10**400, "host", "big", "Bx3", "x", [], {}, -0.0, 1e308]))
def test_any_change_of_a_profile_loads_or_is_refused(data, value):
    """One entry anywhere becomes something else. What loads can be saved and read again."""
    content = copy.deepcopy(CONTENT)
    inner = content
    while True:
        key = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
        if isinstance(inner[key], (dict, list)) and inner[key] and data.draw(st.booleans()):
            inner = inner[key]
        else:
            break
    inner[key] = value
    try:
        profile = Profile.from_dict(content, "text")
    except ArgumentError as error:
        assert "\n" not in str(error)
        return
    assert Profile.from_dict(json.loads(dumps(profile.to_dict())), "again").to_dict() == profile.to_dict()


def test_plans_survive_a_round_trip(tmp_path):
    path = tmp_path / "plan.json"
    for text in ("gpu-bigx3-little:1,3", "big", "big+little"):
        Plan.parse(text).save(path, GRAPH, {"period_ms": 3.5})
        assert Plan.load(path, GRAPH) == Plan.parse(text)
    assert json.loads(path.read_text()) == {
        "format": "pipeall.plan/1",
        "plan": "big+little",
        "network": "chain4",
        "groups": 4,
        "period_ms": 3.5,
    }


@pytest.mark.parametrize(
    "content, message",
    [
        ({}, "expected the text of a plan under 'plan', got None"),
        ({"plan": ["big"], "groups": 4}, r"expected the text of a plan under 'plan', got \['big'\]"),
        (
            {"plan": "big", "network": "other", "groups": 5},
            "for the 4 groups of chain4, got one for 5 groups of 'other'",
        ),
        ({"plan": "big", "network": "x", "groups": 4.5}, "groups: expected a whole number, got 4.5"),
        ({"plan": "big", "groups": 4}, "network: expected text, got None"),
        ({"plan": "big-little:x", "groups": 4}, "plan 'big-little:x': expected ORDER"),
        ({"plan": "big-big:1", "groups": 4}, "expected another component behind big"),
        ({"plan": "big-little:" + "9" * 5000, "groups": 4}, "expected ORDER"),
        ({"plan": "", "groups": 4}, "expected big, mid, little, gpu, npu or cpu"),
    ],
)
def test_wrong_plans_are_refused(tmp_path, content, message):
    path = tmp_path / "plan.json"
    write_json(path, "plan", content)
    with pytest.raises(ArgumentError, match=message):
        Plan.load(path, GRAPH)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "expected JSON"),
        (b"{", "expected JSON"),
        (b"\xff\xfe\x00", "expected JSON"),
        (b'{"format": "pipeall.plan/1", "a": NaN}', "expected JSON; NaN is no JSON number"),
        (b'{"format": "pipeall.plan/1", "a": -Infinity}', "expected JSON; -Infinity is no JSON number"),
        (b"[" * 200_000, "expected JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}", "expected JSON"),
        (b'"pipeall.plan/1"', "expected format 'pipeall.plan/1', got 'str'"),
        (b'{"format": {"pipeall": "plan/1"}}', "expected format 'pipeall.plan/1', got {'pipeall'"),
    ],
)
def test_what_is_no_file_of_ours_is_refused(tmp_path, content, message):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=message) as error:
        read_json(path, "plan")
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_files_that_cannot_be_read_or_written(tmp_path):
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(ArgumentError, match="cannot be read: |expected a file, got a folder"):
            read_json(path, "plan")
    for path in (tmp_path / "absent" / "plan.json", tmp_path):
        with pytest.raises(ArgumentError, match="cannot be written: "):
            write_json(path, "plan", {})
    assert list(tmp_path.iterdir()) == []  # nothing half-written stays behind


def test_huge_files_are_refused_unread(tmp_path):
    path = tmp_path / "huge.json"
    with open(path, "wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse: takes no space
    with pytest.raises(ArgumentError, match=f"expected at most {MAX_BYTES} bytes, got {MAX_BYTES + 1}"):
        read_json(path, "plan")


def test_writing_is_atomic_and_keeps_the_usual_permissions(tmp_path):
    """A file that is replaced keeps its old content for whoever has it open; a failure leaves it as it was."""
    path, mask = tmp_path / "text", os.umask(0o027)
    try:
        write_text(path, "old")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(mask)
    with open(path) as reader:
        write_text(path, "new")
        assert reader.read() == "old" and path.read_text() == "new"
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_json_has_a_line_per_entry_and_short_lists_on_one():
    text = dumps({"a": [1, 2.5, None], "b": {"x": 1}, "c": [{"y": [1]}, "z"], "d": {}, "e": []})
    assert json.loads(text) == {"a": [1, 2.5, None], "b": {"x": 1}, "c": [{"y": [1]}, "z"], "d": {}, "e": []}
    assert text.splitlines()[:3] == ["{", ' "a": [1, 2.5, null],', ' "b": {"x": 1},']
    with pytest.raises(ValueError):
        dumps({"a": INF})
