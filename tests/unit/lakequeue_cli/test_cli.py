"""What people type, and what they read: the rules of the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from lakequeue.arguments import duration_ms_of, micros_of
from lakequeue.client.message import Message
from lakequeue.errors import (
    Broken,
    EpochSuperseded,
    InvalidRequest,
    LakequeueError,
    Overloaded,
    UnknownTopic,
    WrongUsage,
)
from lakequeue.records import Format
from lakequeue.wire import (
    DeadLetterPlace,
    GroupDescription,
    PartitionState,
    RecordStatus,
    is_internal_group,
    to_bytes,
)
from lakequeue_cli.app import app
from lakequeue_cli.commands.config import source_of
from lakequeue_cli.commands.consume import End, as_document, checked_format, render
from lakequeue_cli.commands.group import summary_of
from lakequeue_cli.commands.produce import As, at_line, line_of
from lakequeue_cli.group_tables import STATUS_COLUMNS, lag_of, rows_of, status_row_of
from lakequeue_cli.options import Position, position_of
from lakequeue_cli.output import plain_table


def message(**changes: Any) -> Message:
    raw = {
        "topic": "orders",
        "partition": 1,
        "offset": 7,
        "key": "k",
        "value": {"a": 1},
        "headers": [{"key": "h", "value": "x"}],
        "timestamp": 1_359_615_600_123_456,
        "receipt": "r",
    }
    return Message(raw | changes, 1, 1, lambda _m, _t: None)


_AT = datetime(2013, 1, 31, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position("earliest")),
        ("latest", Position("latest")),
        ("42", Position("offset", offset=42)),
        ("-10", Position("latest", shift=-10)),
        ("@2013-01-31T07:00:00Z", Position("time", time=_AT)),
        ("2013-01-31T07:00:00+00:00", Position("time", time=_AT)),
        ("@1359615600000", Position("time", time=_AT)),
    ],
)
def test_positions(text: str, position: Position) -> None:
    assert position_of(text, relative_to="latest") == position


def test_a_shift_is_relative_to_what_the_command_says() -> None:
    assert position_of("+5", relative_to="committed") == Position("committed", shift=5)


@pytest.mark.parametrize("bad", ["", "soon", "@", "@yesterday", "1.5", "--5"])
def test_bad_positions_say_what_is_possible(bad: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        position_of(bad, relative_to="latest")
    assert caught.value.hint
    assert caught.value.exit_code == 2, "wrong usage"


def test_times_and_durations() -> None:
    assert micros_of("1970-01-01T00:00:01Z") == 1_000_000
    assert [duration_ms_of(t) for t in ("500ms", "30s", "10m", "12h", "7d")] == [
        500,
        30_000,
        600_000,
        43_200_000,
        604_800_000,
    ]
    assert duration_ms_of(None) is None
    with pytest.raises(InvalidRequest):
        duration_ms_of("7")


def test_formats_are_those_of_kcat() -> None:
    assert render(r"%t/%p@%o %k: %s\n", message()) == 'orders/1@7 k: {"a":1}\n'
    assert render(r"%T\t%h %S %%", message()) == "1359615600123\th=x 7 %"
    assert render("%s", message(value=None)) == ""
    binary = message(value=None, value_base64="AP8=")
    assert render("%s", binary) == "AP8="
    assert as_document(binary)["value_base64"] == "AP8="
    assert as_document(message())["value"] == {"a": 1}


@pytest.mark.parametrize("pattern", ["%x", "%s %", "%t%%%D", "%é"])
def test_a_letter_that_is_no_part_of_a_record_is_refused(pattern: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        checked_format(pattern)
    assert "%h headers" in (caught.value.hint or "")
    assert checked_format(r"%%x %s\n") == r"%%x %s\n"


def test_groups_that_commands_make_for_themselves_are_internal() -> None:
    assert is_internal_group("redrive.orders.dlq")
    assert is_internal_group("cli-0123456789ab")
    assert not is_internal_group("cli-tools")
    assert not is_internal_group("orders.redrive.all")


def test_the_lag_of_a_group_is_told_by_topic() -> None:
    parts = [("a", 0, 3), ("b", 0, 0), ("a", 1, 4)]
    group = GroupDescription(
        group="billing",
        partitions=[
            PartitionState(topic=t, topic_id=t, partition=p, end_offset=10, lag=lag)
            for t, p, lag in parts
        ],
    )
    assert lag_of(group) == {"a": 7, "b": 0}
    assert summary_of(group) == {
        "group": "billing",
        "mode": "stream",
        "members": 0,
        "lag": 7,
        "topics": ["a", "b"],
    }


def test_lines_are_split_at_the_first_delimiter() -> None:
    assert line_of("a:b:c", 1, ":", None, As.TEXT) == ("a", "b:c")
    assert line_of("a:b", 1, None, "fixed", As.TEXT) == ("fixed", "a:b")
    key, value = line_of('k\t{"n": 1.0}', 1, "\t", None, As.JSON)
    assert (key, to_bytes(value)) == ("k", (b'{"n": 1.0}', Format.JSON))


def test_bad_lines_are_named() -> None:
    with pytest.raises(InvalidRequest, match="line 3 has no ':'"):
        line_of("nothing", 3, ":", None, As.TEXT)
    with pytest.raises(InvalidRequest, match="line 4 is not JSON"):
        line_of("{", 4, None, None, As.JSON)


def test_the_end_is_where_it_was_at_the_start() -> None:
    end = End({("orders", 0): 0, ("orders", 1): 8, ("orders", 2): 5}, {("orders", 2): 5})
    owned = {("orders", p) for p in range(3)}
    assert not end.reached(owned)
    assert end.reached({("orders", 0), ("orders", 2)})
    end.seen(message(offset=6))
    assert not end.reached(owned)
    end.seen(message(offset=7))
    end.seen(message(offset=8))
    assert end.reached(owned)


def test_group_rows_and_plain_tables() -> None:
    group = GroupDescription.model_validate(
        {
            "group": "billing",
            "partitions": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "committed_offset": 3,
                    "end_offset": 5,
                    "lag": 2,
                    "owner": "m1",
                    "epoch": 4,
                    "lease_expires_ms": 1500,
                }
            ],
            "members": [{"member_id": "m1", "host": "box"}],
        }
    )
    (row,) = rows_of(group)
    assert row == ("billing", "orders", 0, 3, 5, 2, "m1", "box", 4, "1.5s", None)
    assert plain_table(("A", "BBB"), [["long", "x"]]) == "A     BBB\nlong  x\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(UnknownTopic("x"), 8), (Overloaded("x"), 9), (EpochSuperseded("x"), 10), (Broken("x"), 1)],
)
def test_exit_codes(error: LakequeueError, code: int) -> None:
    assert error.exit_code == code


def test_settings_name_their_source() -> None:
    sources: dict[str, dict[str, Any]] = {
        "environment": {"ingest": {"port": "1"}},
        "lakequeue.toml": {"root": "/q"},
    }
    assert source_of("ingest.port", sources) == "environment"
    assert source_of("ingest.host", sources) == "default"
    assert source_of("root", sources) == "lakequeue.toml"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "topic create",
        "topic alter",
        "produce",
        "consume",
        "group seek",
        "config show",
        "job run",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_a_refused_record_is_named_by_its_line() -> None:
    refused = InvalidRequest("record p:4: no such partition", hint="h", message_id="p:4")
    named = at_line(refused, 317)
    assert isinstance(named, InvalidRequest)
    assert (named.detail, named.hint) == ("line 317: no such partition", "h")
    assert at_line(UnknownTopic("topic 't' does not exist"), 317) is None


def test_the_status_of_a_record_has_its_time_and_where_its_dead_letter_is() -> None:
    where: dict[str, Any] = {"group": "g", "topic": "orders", "partition": 1, "offset": 7}
    parked = RecordStatus(**where, status="parked", attempt=2, due=1_359_615_600_123_000)
    dead = RecordStatus(
        **where,
        status="dead",
        attempt=3,
        reason="max_attempts",
        dead_letter=DeadLetterPlace(topic="orders.dlq", partition=0, offset=9),
    )
    rows = [dict(zip(STATUS_COLUMNS, status_row_of(one), strict=True)) for one in (parked, dead)]
    assert rows[0]["RECORD"] == "orders/1@7"
    assert rows[0]["UNTIL"] == "2013-01-31T07:00:00.123+00:00"
    assert (rows[1]["STATUS"], rows[1]["ATTEMPT"], rows[1]["REASON"]) == ("dead", 3, "max_attempts")
    assert (rows[1]["UNTIL"], rows[1]["DEAD-LETTER"]) == (None, "orders.dlq/0@9")
