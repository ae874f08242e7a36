"""Options and columns of the sink: what Spark's Kafka sink refuses is refused."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest
from pyspark_lakequeue.sink.options import SinkOptions, check_columns, sink_options

STRING = {"value": "string"}
TO = SinkOptions("/q", "orders", None)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"topic": "t"}, "root"),
        ({"root": "/q", "topics": "t"}, "topics"),
        ({"root": "/q", "txnAppId": "a"}, "txnAppId"),
        ({"root": "/q", "txnVersion": "1"}, "txnAppId"),
        ({"root": "/q", "txnAppId": "a", "txnVersion": "-1"}, "txnVersion"),
        ({"root": "/q", "wait": "false"}, "wait"),
        ({"root": "/q", "timeoutMs": "0"}, "timeoutMs"),
        ({"root": "/q", "timeoutMs": "30s"}, "timeoutMs"),
        ({"root": "/q", "kafka.value.serializer": "x"}, "kafka.value.serializer"),
        ({"root": "/q", "kafka.key.serializer": "x"}, "kafka.key.serializer"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sink_options(given)
    assert refused.value.extra["field"] == field


def test_spark_s_own_options_and_those_of_brokers_pass() -> None:
    given = {"root": "/q", "topic": "t", "checkpointlocation": "/c", "queryname": "q"}
    assert sink_options(given) == SinkOptions("/q", "t", None, None, 30.0)
    assert sink_options(given | {"timeoutMs": "500"}).wait_s == 0.5
    assert sink_options(given | {"wait": "committed"}).wait_s == 0.0
    assert sink_options(given | {"badTopic": " bad"}).bad_topic == "bad"
    assert sink_options(given | {"topic": " t "}).topic == "t", "as the Kafka sink takes it"
    with pytest.warns(UserWarning, match="is ignored"):
        sink_options(given | {"kafka.bootstrap.servers": "b"})
    assert sink_options(given | {"txnAppId": "a", "txnVersion": "7"}).txn == ("a", 7)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"key": "string"}, "required column 'value' not found"),
        ({"value": "int"}, "column 'value' is int; it must be string or binary"),
        ({"value": "void"}, "column 'value' is void"),
        (STRING | {"key": "bigint"}, "column 'key' is bigint"),
        (STRING | {"topic": "binary"}, "column 'topic' is binary"),
        (STRING | {"partition": "bigint"}, "column 'partition' is bigint"),
        (STRING | {"headers": "map<string,string>"}, "column 'headers' is map"),
        (STRING | {"message_id": "binary"}, "column 'message_id' is binary"),
    ],
)
def test_a_column_that_is_missing_or_of_a_wrong_type_is_named(
    found: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        check_columns(found, TO)


def test_a_topic_must_come_from_somewhere() -> None:
    nowhere = SinkOptions("/q", None, None)
    with pytest.raises(InvalidRequest, match="neither an option nor a column 'topic'"):
        check_columns(STRING, nowhere)
    check_columns(STRING | {"topic": "string"}, nowhere)


def test_all_columns_of_the_kafka_sink_are_taken_and_others_skipped() -> None:
    headers = {"headers": "array<struct<key:string,value:binary>>"}
    found = {"key": "binary", "value": "binary", "topic": "string", "partition": "int"}
    check_columns(found | headers | {"more": "double"}, TO)
