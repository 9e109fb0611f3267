"""Journals and the cache: what is written comes back, and what cannot be used is refused or made anew."""

import json

import pytest
from commands import small_disk

from pipeall import ArgumentError, cache
from pipeall.journal import MAX_BYTES, Journal

ABOUT = {"seed": 3, "shape": [1, 2]}
HEAD = b'{"format": "pipeall.digits/1", "seed": 3, "shape": [1, 2]}\n'


def opened(path, about=ABOUT):
    return Journal(path, "digits", about)


def test_entries_come_back_in_order(tmp_path):
    path = tmp_path / "journal"
    entries = [{"digit": 1 / 3}, {}, {"digit": [4, "four"]}]
    journal = opened(path)
    for entry in entries:
        journal.add(entry)
    journal.check()
    assert path.read_bytes() == HEAD + b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
    again = opened(path)
    assert journal.entries == again.entries == entries
    again.remove()
    again.remove()
    assert not path.exists()


def test_a_journal_that_was_cut_off_anywhere(tmp_path):
    path = tmp_path / "journal"
    lines = [b'{"digit": 1}\n', b'{"digit": 2}\n']
    whole = HEAD + b"".join(lines)
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        count = sum(size >= end for end in (len(HEAD + lines[0]), len(whole)))
        assert opened(path).entries == [{"digit": 1}, {"digit": 2}][:count]
        assert path.read_bytes() == HEAD + b"".join(lines[:count])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"my letters", "expected format 'pipeall.digits/1' in its first line"),
        (b"my letters\n" * 9, "expected format"),
        (b"[]\n", "expected format"),
        (HEAD.replace(b"digits", b"plan"), "expected format"),
        (HEAD.replace(b"3", b"4"), "belongs to another seed: 4 there, 3 here"),
        (HEAD.replace(b"}", b', "more": 1}'), "belongs to another more: 1 there, None here"),
        (HEAD[:40].replace(b"3", b"4"), "expected format"),
        (HEAD + b"\xff\n", "line 2: expected an entry"),
        (HEAD + b"{}\n[1]\n", "line 3: expected an entry"),
        (HEAD + b"{}\n\n{}\n", "line 3: expected an entry"),
        (HEAD + b"[" * 100_000 + b"\n", "line 2: expected an entry"),
    ],
)
def test_files_that_are_no_such_journal(tmp_path, content, words):
    path = tmp_path / "journal"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match=f"journal: {words}"):
        opened(path)
    assert path.read_bytes() == content


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ArgumentError, match="expected a file, got a folder"):
        opened(tmp_path)
    with pytest.raises(ArgumentError, match="cannot be written: No such file"):
        opened(tmp_path / "absent" / "journal")
    path = tmp_path / "journal"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse: takes no space
    with pytest.raises(ArgumentError, match=f"expected at most {MAX_BYTES} bytes"):
        opened(path)


def test_work_goes_on_where_no_more_can_be_written(tmp_path):
    path = tmp_path / "journal"
    journal = opened(path)
    path.unlink()
    path.mkdir()
    with pytest.warns(RuntimeWarning, match="Is a directory; results from here on are not kept") as warned:
        journal.add({"digit": 1})
        journal.add({"digit": 2})
    assert len(warned) == 1 and journal.entries == [{"digit": 1}, {"digit": 2}]
    with pytest.raises(ArgumentError, match="journal: cannot be written: Is a directory"):
        journal.check()


def test_a_journal_that_cannot_begin_on_a_full_disk(tmp_path):
    path = tmp_path / "journal"
    with (
        small_disk(20),
        pytest.warns(RuntimeWarning, match="File too large; results from here on are not kept") as warned,
    ):
        journal = opened(path)
        journal.add({"digit": 1})
    assert len(warned) == 1 and journal.entries == [{"digit": 1}]
    with pytest.raises(ArgumentError, match="journal: cannot be written: File too large"):
        journal.check()
    assert opened(path).entries == [] and path.read_bytes() == HEAD


def test_cached_results(keeping, tmp_path, monkeypatch):
    path = cache.cached_path("digits", "My net!", (1, 2), "x")
    assert path.parent == tmp_path / "cache" / "digits" and path.name.startswith("My-net--")
    assert cache.read_cached(path, "digits") is None and cache.all_cached("digits") == []
    cache.write_cached(path, "digits", {"digit": 4})
    assert cache.read_cached(path, "digits")["digit"] == 4 and cache.all_cached("digits") == [path]
    assert cache.any_cached("digits", "My net!") and not cache.any_cached("digits", "My ne")
    others = [cache.cached_path("digits", "My net?", (1, 2), "x"), cache.cached_path("digits", "My net!", (1, 3), "x")]
    monkeypatch.setattr(cache, "__version__", "another")
    assert len({path, *others, cache.cached_path("digits", "My net!", (1, 2), "x")}) == 4
    for damage in ("", "{", '{"format": "pipeall.plan/1"}'):
        path.write_text(damage)
        assert cache.read_cached(path, "digits") is None
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("a file, where the folder should be")
    with pytest.raises(ArgumentError, match="cannot be written"):
        cache.write_cached(path, "digits", {})
