"""Options that come from declarations of settings."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from typer.testing import CliRunner

from lakequeue.errors import InvalidRequest
from lakequeue.wire import JoinRequest
from lakequeue.wire.calls.topics import TopicSettings
from lakequeue_cli.declared_options import settings_of, with_settings


def said(*arguments: str, model: Any = TopicSettings, alterable: bool = False) -> Any:
    app = typer.Typer()

    @app.command()
    @with_settings(*settings_of(model, alterable=alterable))
    def command(name: str, *, settings: dict[str, Any], loud: bool = False) -> None:
        print(json.dumps([name, settings, loud]))

    done = CliRunner().invoke(app, ["it", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout) if done.exit_code == 0 else done.exit_code


def test_only_what_was_typed_is_given() -> None:
    assert said() == ["it", {}, False]
    assert said("--loud", "-p", "8", "--ttl", "2h") == [
        "it",
        {"partitions": 8, "ttl_ms": 7_200_000},
        True,
    ]


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        (("--retention", "0s"), "retention_ms", None),
        (("--retention-bytes", "0"), "retention_bytes", None),
        (("--max-attempts", "0"), "max_attempts", None),
        (("--dead-letter-topic", ""), "dead_letter_topic", None),
        (("--dedup-window", "0s"), "dedup_window_ms", 0),
        (("--backoff", "0ms"), "backoff_ms", 0),
        (("--keep-unconsumed",), "expire_unconsumed", False),
        (("--expire-unconsumed",), "expire_unconsumed", True),
        (("--on-expired", "dead_letter"), "on_expired", "dead_letter"),
        (("--backoff-jitter", "20"), "backoff_jitter_percent", 20),
    ],
)
def test_zero_takes_back_what_can_be_null(typed: tuple[str, ...], name: str, value: Any) -> None:
    assert said(*typed) == ["it", {name: value}, False]


def test_a_schema_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object"}')
    assert said("--value-schema", str(file))[1] == {"value_schema": '{"type": "object"}'}
    assert said("--value-schema", str(tmp_path / "no")) == 2
    file.write_bytes(FileDescriptorSet(file=[FileDescriptorProto(name="\xff")]).SerializeToString())
    text = base64.b64encode(file.read_bytes()).decode()
    assert json.loads(said("--value-schema", str(file))[1]["value_schema"]) == {"descriptors": text}


def test_bounds_are_those_of_the_declaration() -> None:
    for typed in (("-p", "0"), ("-p", "10001"), ("--backoff-jitter", "101")):
        assert said(*typed) == 2
    assert said("--max-attempts", "0", model=JoinRequest) == 2, "a group has nobody to fall back on"
    with pytest.raises(InvalidRequest, match="duration '2x' is not valid"):
        said("--ttl", "2x")


def test_what_cannot_be_altered_is_no_option_of_alter() -> None:
    assert said("--partitioner", "murmur2")[1] == {"partitioner": "murmur2"}
    assert said("--partitioner", "murmur2", alterable=True) == 2
