"""The JSON of commits: what is written is read back, and a torn file is named."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakequeue.errors import CorruptTable
from queue_tables.delta.actions import (
    Action,
    Add,
    CommitInfo,
    Metadata,
    Protocol,
    Remove,
    Txn,
    checkpoint_part,
    commit_path,
    commit_version,
    encode,
)
from queue_tables.delta.commit_json import is_inside, parse

EVERY_ACTION: list[Action] = [
    CommitInfo({"stamp": 7, "rows": 2}, 1_700_000_000_000, "WRITE", "abc"),
    Protocol(),
    Metadata(
        "id", '{"type":"struct","fields":[]}', ("hour",), {"lakequeue.sealed": "true"}, "name", 5
    ),
    Txn("offset/t1/0", 42),
    Add("hour=2013-01-31T07/a.parquet", 10, {"hour": "2013-01-31T07"}, 3, True, '{"numRecords":1}'),
    Remove("hour=2013-01-31T07/b.parquet", 4, False, {"hour": "2013-01-31T07"}, 9),
]


def test_every_action_comes_back_as_it_was() -> None:
    assert parse(3, encode(EVERY_ACTION)).actions == tuple(EVERY_ACTION)


def test_commit_info_stands_first_whatever_the_order_given() -> None:
    lines = encode(EVERY_ACTION[::-1]).splitlines()
    assert list(orjson.loads(lines[0])) == ["commitInfo"]


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1))
def test_any_path_survives_and_is_plain_ascii_in_the_file(path: str) -> None:
    assume(is_inside(path))
    data = encode([Add(path, 1)])
    assert orjson.loads(data)["add"]["path"].isascii()
    assert parse(0, data).adds[0].path == path


@pytest.mark.parametrize(
    ("path", "encoded"),
    [
        ("hour=2013-01-31T07/part-1.parquet", "hour=2013-01-31T07/part-1.parquet"),
        ("a b%20.parquet", "a%20b%2520.parquet"),
    ],
)
def test_paths_are_encoded_as_the_protocol_says(path: str, encoded: str) -> None:
    assert orjson.loads(encode([Add(path, 1)]))["add"]["path"] == encoded


def test_a_commit_answers_what_readers_ask() -> None:
    commit = parse(3, encode(EVERY_ACTION))
    assert commit.info == {"stamp": 7, "rows": 2}
    assert commit.txns == {"offset/t1/0": 42}
    assert commit.configuration == {"lakequeue.sealed": "true"}
    assert [a.path for a in commit.adds] == ["hour=2013-01-31T07/a.parquet"]
    assert not commit.appends  # it also removes


@pytest.mark.parametrize(
    ("actions", "appends"),
    [
        ([Add("a", 1)], True),
        ([Add("a", 1, data_change=False)], False),
        ([Add("a", 1), Remove("b")], False),
        ([Txn("x", 1)], False),
    ],
)
def test_only_a_commit_that_adds_rows_and_removes_nothing_appends(
    actions: list[Action], appends: bool
) -> None:
    assert parse(1, encode([CommitInfo(), *actions])).appends is appends


def test_commits_of_other_engines_have_no_info_and_unknown_actions_are_skipped() -> None:
    data = (
        b'{"commitInfo":{"operation":"OPTIMIZE","lakequeue":"no object"}}\n{"cdc":{"path":"x"}}\n'
    )
    commit = parse(1, data)
    assert commit.info == {}
    assert commit.configuration is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        encode(EVERY_ACTION)[:-20],
        b"\x00" * 100,
        encode([CommitInfo()]) + b'{"add":{"size":1}}\n',
        b"[1]\n",
    ],
    ids=["empty", "blank", "cut", "zeroes", "no path", "no object"],
)
def test_a_torn_commit_names_version_and_remedy(data: bytes) -> None:
    with pytest.raises(CorruptTable, match=r"commit 12 cannot be read.*power loss.*0012\.json"):
        parse(12, data)


def test_names_of_log_files() -> None:
    assert commit_path("log", 7) == "log/_delta_log/00000000000000000007.json"
    assert commit_version("00000000000000000007.json") == 7
    assert commit_version(".00000000000000000007.json.99-ab.tmp") is None
    assert commit_version("00000000000000000007.checkpoint.parquet") is None
    seven = "00000000000000000007.checkpoint"
    assert checkpoint_part(f"{seven}.parquet") == (7, 1, 1, "")
    assert checkpoint_part(f"{seven}.0000000002.0000000003.parquet") == (7, 2, 3, "")
    own = "80a083e8-7026-4e79-81be-64bd76c43a11"
    for form in ("json", "parquet"):
        assert checkpoint_part(f"{seven}.{own}.{form}") == (7, 1, 1, own)
    assert checkpoint_part(f"{seven}.{own}.txt") is None
    assert checkpoint_part("00000000000000000007.json") is None
