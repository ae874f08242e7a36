"""What the job `stream_in` reads and writes, as its command line says."""

from __future__ import annotations

import pytest

from jobs.feeds.options import StreamOptions, parse
from jobs.feeds.sources import documents_of, reader_options, record_columns

COMMON = ["--root", "/q", "--topic", "orders", "--checkpoint", "/c"]


def options(*argv: str) -> StreamOptions:
    return parse("jobs.stream_in", [*argv, *COMMON])


def test_a_delta_table_gives_rows_as_json_bounded_by_bytes() -> None:
    feed = options("delta", "--table", "main.sales.orders", "--key", "id").feed
    assert record_columns(feed) == {"value": "to_json(struct(*))", "key": "id"}
    assert reader_options(feed) == {"maxBytesPerTrigger": "134217728"}


def test_kafka_records_keep_key_value_headers_and_time_but_not_their_partition() -> None:
    feed = options("kafka", "--servers", "b:1", "--subscribe", "a,b").feed
    assert set(record_columns(feed)) == {"key", "value", "headers", "timestamp"}
    assert reader_options(feed) == {
        "kafka.bootstrap.servers": "b:1",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100000",
        "includeHeaders": "true",
        "subscribe": "a,b",
    }
    kept = options("kafka", "--servers", "b:1", "--assign", '{"a": [0]}', "--keep-partitions").feed
    assert record_columns(kept)["partition"] == "`partition`"


def test_given_options_go_before_ours_whatever_their_case() -> None:
    argv = ("kafka", "--servers", "b:1", "--subscribe", "a", "--option", "startingoffsets=latest")
    read = reader_options(options(*argv).feed)
    assert read["startingoffsets"] == "latest"
    assert "startingOffsets" not in read


def test_a_limit_of_files_takes_the_place_of_that_of_bytes() -> None:
    """Spark's file source refuses both."""
    read = reader_options(options("json", "--path", "/in", "--option", "maxFilesPerTrigger=1").feed)
    assert "maxBytesPerTrigger" not in read


def test_what_is_no_json_stops_the_stream_or_goes_to_its_own_topic() -> None:
    strict = record_columns(options("json", "--path", "/in").feed)
    assert "raise_error" in strict["value"]
    assert "_refused" not in strict
    lenient = record_columns(options("json", "--path", "/in", "--bad-topic", "odd").feed)
    assert lenient["_refused"].endswith("null, 'no JSON')")
    assert lenient["value"] == "value"


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ('{"a":\n  1.10}\n', ['{"a":\n  1.10}']),
        ('\ufeff{"a": 1}', ['{"a": 1}']),
        ('\n [ {"a" : 1e400},\t"b, ]", null , [2]]\n', ['{"a" : 1e400}', '"b, ]"', "null", "[2]"]),
        ("[]", []),
        (" \n", []),
        ("", []),
        ("12", ["12"]),
    ],
)
def test_a_whole_file_is_a_document_or_an_array_of_them_as_they_stand_there(
    text: str, documents: list[str]
) -> None:
    assert documents_of(text) == documents


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1}, {"b"',
        '[{"a": 1}] [2]',
        '[{"a": 1},]',
        '[{"a": 1} {"b": 2}]',
        '{"a": 1}\n{"b": 2}',
        "[NaN]",
        "[1",
        "[",
        "half",
        "[" * 100_000,
    ],
)
def test_what_is_no_json_as_a_whole_is_not_taken_apart(text: str) -> None:
    """Neither in part: it goes to its topic, or stops the job, as it stands there."""
    assert documents_of(text) == [text]


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("delta",),
        ("kafka", "--servers", "b:1"),
        ("kafka", "--servers", "b:1", "--subscribe", "a", "--assign", "{}"),
        ("delta", "--table", "t", "--option", "novalue"),
        ("delta", "--table", "t", "--conf", "=x"),
        ("json", "--path", "/in", "--bad-topic", "bad", "--value", "upper(value)"),
        ("delta", "--table", "t", "--bad-topic", "orders"),
        ("csv", "--path", "/in"),
        ("delta", "--table", ""),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        options(*argv)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_name_that_no_topic_can_have_ends_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        parse("jobs.stream_in", ["delta", "--table", "t", "--topic", "a/b", "--checkpoint", "/c"])
    assert ended.value.code == 2
