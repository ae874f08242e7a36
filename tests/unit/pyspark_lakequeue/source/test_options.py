"""Options of the source: every wrong value and combination of the Kafka source is refused."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest, LakequeueError
from pyspark_lakequeue.source.options import COLUMNS, Subscription, read_options
from pyspark_lakequeue.source.positions import EARLIEST, LATEST, AsOf, AtOffsets, AtTime, AtTimes

MS = 1_700_000_000_000
BASE = {"root": "/q", "subscribe": "orders"}


def test_the_defaults_are_those_of_the_kafka_source() -> None:
    batch, stream = read_options(BASE, streaming=False), read_options(BASE, streaming=True)
    assert (batch.starting, batch.ending) == (EARLIEST, LATEST)
    assert stream.starting == LATEST
    for options in (batch, stream):
        assert options.fail_on_data_loss
        assert options.columns == COLUMNS
        assert (options.max_offsets, options.min_offsets, options.min_partitions) == (None, None, 0)
        assert options.group is None


def test_names_do_not_depend_on_case_and_lists_may_have_spaces() -> None:
    given = {"ROOT": "/q", "SUBSCRIBE": "b, a ,b", "FAILONDATALOSS": "False", "Group.Id": "g"}
    options = read_options(given, streaming=True)
    assert options.subscription == Subscription(topics=("a", "b"))
    assert not options.fail_on_data_loss
    assert options.group == "g"


@pytest.mark.parametrize(
    ("more", "columns"),
    [
        ({"includeHeaders": "true"}, (*COLUMNS, "headers")),
        ({"columns": "Offset, VALUE,offset"}, ("value", "offset")),
        ({"columns": "value", "includeHeaders": "true"}, ("value", "headers")),
        ({"columns": "timestamptype,headers"}, ("timestampType", "headers")),
    ],
)
def test_columns_come_in_the_order_of_the_schema(
    more: dict[str, str], columns: tuple[str, ...]
) -> None:
    assert read_options(BASE | more, streaming=False).columns == columns


@pytest.mark.parametrize("text", ["values", "value,ordered_at", " , "])
def test_a_column_that_the_source_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="option columns"):
        read_options(BASE | {"columns": text}, streaming=True)


@pytest.mark.parametrize(
    ("more", "starting"),
    [
        ({"startingOffsets": "Earliest"}, EARLIEST),
        ({"startingOffsets": "LATEST"}, LATEST),
        (
            {"startingOffsets": '{"orders":{"0":23,"1":-2,"2":-1}}'},
            AtOffsets({"orders": {0: 23, 1: -2, 2: -1}}),
        ),
        ({"startingTimestamp": str(MS), "startingOffsets": "earliest"}, AtTime(MS)),
        ({"startingTimestamp": "2023-11-14T22:13:20Z"}, AtTime(MS)),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":1700000000007}}',
                "startingOffsets": "earliest",
            },
            AtTimes({"orders": {0: MS + 7}}),
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":1700000000007}}',
                "startingTimestamp": str(MS),
            },
            AtTime(MS),
        ),
    ],
)
def test_of_several_starting_options_the_kafka_source_s_order_holds(
    more: dict[str, str], starting: object
) -> None:
    assert read_options(BASE | more, streaming=True).starting == starting


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"root": "/q"}, "subscribe"),
        ({"root": "/q", "subscribe": "a", "subscribePattern": "b"}, "subscribePattern"),
        ({"root": "/q", "assign": '{"a":[0]}', "subscribe": "b"}, "subscribe"),
        ({"root": "/q", "subscribe": " , "}, "subscribe"),
        ({"root": "/q", "subscribePattern": " "}, "subscribePattern"),
        ({"root": "/q", "subscribePattern": "("}, "subscribePattern"),
        ({"root": "/q", "assign": "{}"}, "assign"),
        ({"root": "/q", "assign": "orders"}, "assign"),
        ({"root": "/q", "assign": '{"a":[]}'}, "assign"),
        ({"root": "/q", "assign": '{"a":["0"]}'}, "assign"),
        ({"root": "/q", "assign": '{"a":[-1]}'}, "assign"),
        ({"subscribe": "a"}, "root"),
        (BASE | {"startingOffsets": "first"}, "startingOffsets"),
        (BASE | {"startingOffsets": '{"a":{"0":-3}}'}, "startingOffsets"),
        (BASE | {"startingOffsets": '{"a":[1]}'}, "startingOffsets"),
        # Spark 4.2's Kafka source refuses it, too.
        (BASE | {"startingOffsets": '{"a":"earliest"}'}, "startingOffsets"),
        (BASE | {"startingOffsets": '{"a":{"x":1}}'}, "startingOffsets"),
        (BASE | {"startingTimestamp": "soon"}, "startingTimestamp"),
        (BASE | {"startingTimestamp": "1700000000"}, "startingTimestamp"),
        (BASE | {"startingTimestamp": "1700000000000000"}, "startingTimestamp"),
        (
            BASE | {"startingOffsetsByTimestamp": '{"a":{"0":1700000000}}'},
            "startingOffsetsByTimestamp",
        ),
        (BASE | {"startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "startingOffsetsByTimestamp"),
        (
            BASE | {"startingOffsetsByTimestampStrategy": "x"},
            "startingOffsetsByTimestampStrategy",
        ),
        (BASE | {"minPartitions": "0"}, "minPartitions"),
        (BASE | {"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition"),
        (BASE | {"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger"),
        (
            BASE | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger",
        ),
        (BASE | {"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        (BASE | {"failOnDataLoss": "no"}, "failOnDataLoss"),
        (BASE | {"includeHeaders": "1"}, "includeHeaders"),
    ],
)
def test_what_is_wrong_in_every_query_is_refused_and_named(
    given: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_options(given, streaming=True)
    assert refused.value.extra["field"] == field
    assert refused.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "asOfTimestamp",
        "ENDINGOFFSETS",
    ],
)
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(InvalidRequest, match="streaming"):
        read_options(BASE | {name: "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"orders":{"0":3,"1":-1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"orders":{"0":-2}}'),
    ],
)
def test_a_batch_begins_at_no_end_and_ends_at_no_beginning(name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match="batch") as refused:
        read_options(BASE | {name: value}, streaming=False)
    assert refused.value.extra["field"] == name


def test_a_batch_ends_as_of_a_time_or_elsewhere_but_not_both() -> None:
    assert read_options(BASE | {"asOfTimestamp": str(MS)}, streaming=False).ending == AsOf(MS)
    with pytest.raises(InvalidRequest, match="asOfTimestamp") as refused:
        read_options(BASE | {"asOfTimestamp": str(MS), "endingOffsets": "latest"}, streaming=False)
    assert refused.value.extra["field"] == "endingOffsets"
    with pytest.raises(InvalidRequest, match="milliseconds"):
        read_options(BASE | {"asOfTimestamp": "yesterday"}, streaming=False)


def test_an_unknown_option_is_refused_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(InvalidRequest, match="did you mean startingOffsets"):
        read_options(BASE | {"startingOffset": "earliest"}, streaming=True)


def test_options_for_brokers_and_of_the_other_kind_are_ignored_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"kafka\.bootstrap\.servers is ignored"):
        read_options(BASE | {"kafka.bootstrap.servers": "b:9092"}, streaming=True)
    with pytest.warns(UserWarning, match="maxOffsetsPerTrigger is ignored in a batch"):
        read_options(BASE | {"maxOffsetsPerTrigger": "5"}, streaming=False)


def test_a_group_must_have_a_valid_name() -> None:
    with pytest.raises(LakequeueError, match="group name"):
        read_options(BASE | {"group.id": "a b"}, streaming=True)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.key.deserializer", "cast"),
        ("Kafka.Value.Deserializer", "cast"),
        ("kafka.enable.auto.commit", "checkpoint"),
        ("kafka.interceptor.classes", "interceptor"),
    ],
)
def test_an_option_that_the_kafka_source_refuses_is_refused(
    name: str, remedy: str, streaming: bool
) -> None:
    with pytest.raises(InvalidRequest, match="is not supported") as refused:
        read_options(BASE | {name: "x"}, streaming=streaming)
    assert remedy in refused.value.hint


def test_what_the_kafka_source_is_told_of_its_consumers_is_passed_over() -> None:
    named = {"kafkaConsumer.pollTimeoutMs": "512", "fetchOffset.numRetries": "3"}
    assert read_options(BASE | named, streaming=True).poll_ms == 100


@pytest.mark.parametrize(
    ("more", "field"),
    [
        (
            {
                "startingOffsets": '{"orders":{"0":5,"1":-2}}',
                "endingOffsets": '{"orders":{"0":2,"1":-1}}',
            },
            "endingOffsets",
        ),
        ({"startingTimestamp": str(MS + 1), "endingTimestamp": str(MS)}, "endingTimestamp"),
        (
            {
                "startingOffsetsByTimestamp": f'{{"orders":{{"0":{MS + 1}}}}}',
                "endingOffsetsByTimestamp": f'{{"orders":{{"0":{MS}}}}}',
            },
            "endingOffsetsByTimestamp",
        ),
    ],
)
def test_a_batch_that_ends_before_it_starts_is_refused_whatever_may_be_lost(
    more: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_options(BASE | more | {"failOnDataLoss": "false"}, streaming=False)
    assert refused.value.extra["field"] == field


def test_a_batch_may_end_where_it_starts() -> None:
    same = {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":5}}'}
    read_options(BASE | same, streaming=False)
