"""Several live sources of one stream: they take turns, and nothing is lost that may not be dropped."""

from itertools import repeat

import pytest
from graphs import frames, small_net

from pipeall import ArgumentError, Pipeline


@pytest.fixture
def pipe(board):
    with Pipeline(small_net(), "big-little:1", board) as pipe:
        yield pipe


def test_several_sources_take_turns(pipe):
    """Each is fast enough to keep the pipeline full by itself."""
    given = frames(pipe.graph, 3)
    sources = {name: repeat(x) for name, x in zip(("door", "yard", "gate"), given, strict=True)}
    seen = {name: 0 for name in sources}
    stream = pipe.stream(sources)
    for number, result in enumerate(stream):
        assert result.frame is next(iter(sources[result.source]))
        seen[result.source] += 1
        if number == 300:
            break
    stream.close()
    assert min(seen.values()) >= 60, seen  # of a hundred: on a busy machine a source may have no frame at its turn
    stats = pipe.stats()
    assert {name: of.frames for name, of in stats.sources.items()} == seen
    assert stats.dropped == sum(of.dropped for of in stats.sources.values()) > 0
    assert all(0 < of.live_p50_ms <= of.live_p95_ms for of in stats.sources.values())
    since = pipe.snapshot()
    assert [result.source for result in pipe.stream({"door": given[:1]})] == ["door"]
    assert {name: of.frames for name, of in pipe.stats(since).sources.items()} == {"door": 1, "yard": 0, "gate": 0}


def test_several_sources_that_wait_lose_no_frame(pipe):
    given = frames(pipe.graph, 5)
    results = list(pipe.stream({"long": given * 20, "short": given}, drop="none"))
    assert [result.number for result in results] == list(range(105))
    for name, expected in (("long", given * 20), ("short", given)):
        assert all(one.frame is x for one, x in zip((r for r in results if r.source == name), expected, strict=True))
    assert pipe.stats().dropped == 0
    with pytest.raises(ArgumentError, match="source: expected one at least"):
        pipe.stream({})


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_an_error_of_one_of_several_sources_ends_the_stream(pipe, drop):
    x = frames(pipe.graph, 1)[0]

    def broken():
        yield x
        raise ValueError("lens cap")

    with pytest.raises(ValueError, match="lens cap"):
        for _ in pipe.stream({"good": repeat(x), "bad": broken()}, drop):
            pass
    assert pipe.pending == 0
