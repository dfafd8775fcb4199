import os
from pathlib import Path

import pytest

from edgec.toolchain.cache import CACHE_VARIABLE, Cache, key_of


def entry_files(cache: Cache) -> list[Path]:
    return sorted(path for path in (cache.folder / "objects").glob("*/*") if path.is_file())


def test_what_was_put_comes_back_with_its_note(tmp_path: Path):
    cache = Cache(folder=tmp_path)
    cache.put(key_of("a"), b"bytes", {"check": "unchecked"})
    entry = cache.get(key_of("a"))
    assert entry is not None
    assert entry.payload.read_bytes() == b"bytes"
    assert entry.note == {"check": "unchecked"}
    assert cache.get(key_of("b")) is None


def test_a_second_put_replaces_the_first(tmp_path: Path):
    cache = Cache(folder=tmp_path)
    cache.put(key_of("a"), b"old", {})
    cache.put(key_of("a"), b"newer", {"n": 1})
    entry = cache.get(key_of("a"))
    assert entry is not None
    assert (entry.payload.read_bytes(), entry.note) == (b"newer", {"n": 1})


def test_keys_tell_apart_where_one_part_ends():
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("a") != key_of("a", "")
    assert key_of("a", b"b") == key_of(b"a", "b")


@pytest.mark.parametrize("change", [b"other", b"byteS", b""])
def test_a_corrupted_payload_is_ignored_and_removed(tmp_path: Path, change: bytes):
    cache = Cache(folder=tmp_path)
    cache.put(key_of("a"), b"bytes", {})
    entry = cache.get(key_of("a"))
    assert entry is not None
    entry.payload.write_bytes(change)
    assert cache.get(key_of("a")) is None
    assert entry_files(cache) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"size": 5}', "null"])
def test_a_corrupted_note_is_ignored(tmp_path: Path, text: str):
    cache = Cache(folder=tmp_path)
    cache.put(key_of("a"), b"bytes", {})
    next(path for path in entry_files(cache) if path.suffix == ".json").write_text(text)
    assert cache.get(key_of("a")) is None


def test_the_least_recently_used_entries_go_first(tmp_path: Path):
    cache = Cache(folder=tmp_path, limit=25)
    for name in ("a", "b"):
        cache.put(key_of(name), b"x" * 10, {})
    for age, name in enumerate(("b", "a")):
        note = tmp_path / "objects" / key_of(name)[:2] / f"{key_of(name)}.json"
        os.utime(note, (1000 + age, 1000 + age))
    cache.put(key_of("c"), b"x" * 10, {})
    assert cache.get(key_of("b")) is None
    assert cache.get(key_of("a")) is not None
    assert cache.get(key_of("c")) is not None


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path):
    cache = Cache(folder=tmp_path, limit=3)
    cache.put(key_of("a"), b"bytes", {})
    assert cache.get(key_of("a")) is None


def test_a_folder_that_cannot_be_written_is_as_if_empty(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = Cache(folder=tmp_path / "file")
    cache.put(key_of("a"), b"bytes", {})
    assert cache.get(key_of("a")) is None


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "elsewhere"))
    assert Cache.default().folder == tmp_path / "elsewhere"


def test_usage_is_counted_and_cleared(tmp_path: Path):
    cache = Cache(folder=tmp_path)
    assert cache.usage() == (0, 0)
    cache.put(key_of("a"), b"bytes", {})
    cache.put(key_of("b"), b"more bytes", {})
    count, size = cache.usage()
    assert count == 2
    assert size > 15
    cache.clear()
    assert cache.usage() == (0, 0)
    assert cache.get(key_of("a")) is None
