"""`lakequeue group`: list, describe, seek, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from lakequeue.cli.options import AsJson, ConsumerUrl, TimeoutS, admin, position_of
from lakequeue.cli.output import note, print_json, print_table
from lakequeue.wire import GroupDescription

app = typer.Typer(help="List, describe, move and delete consumer groups.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the group.")]
COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "MEMBER",
    "HOST",
    "LEASE-EPOCH",
    "LEASE-EXPIRES",
)

QUEUE_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "NEXT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "IN-FLIGHT",
    "PARKED",
    "DYING",
    "NODE",
    "LEASE-EPOCH",
)


@app.command("list")
def list_(service: ConsumerUrl = None, timeout_s: TimeoutS = 5.0, as_json: AsJson = False) -> None:
    """List the groups."""
    with admin(None, service, timeout_s) as client:
        groups = client.groups()
    if as_json:
        print_json([g.model_dump() for g in groups])
    else:
        print_table(("GROUP", "MODE", "MEMBERS"), [(g.group, g.mode, g.members) for g in groups])


@app.command()
def describe(
    group: Name, service: ConsumerUrl = None, timeout_s: TimeoutS = 5.0, as_json: AsJson = False
) -> None:
    """Show position, end, lag and owner of each partition, and the total lag."""
    with admin(None, service, timeout_s) as client:
        found = client.group(group)
    if as_json:
        print_json(found.model_dump() | {"lag": sum(p.lag for p in found.partitions)})
        return
    if found.mode == "queue":
        print_table(QUEUE_COLUMNS, queue_rows_of(found))
        for p in found.partitions:
            if p.paused is not None:
                note(f"{p.topic}/{p.partition} is paused: {p.paused}")
    else:
        print_table(COLUMNS, rows_of(found))
    total = sum(p.lag for p in found.partitions)
    print(f"total lag {total}, members {len(found.members)}")


def queue_rows_of(group: GroupDescription) -> list[tuple[object, ...]]:
    """The rows of `describe` for a queue group. Pure."""
    return [
        (
            group.group,
            p.topic,
            p.partition,
            p.committed_offset,
            p.end_offset,
            p.lag,
            p.in_flight,
            p.parked,
            p.dying,
            p.node,
            p.epoch,
        )
        for p in group.partitions
    ]


def rows_of(group: GroupDescription) -> list[tuple[object, ...]]:
    """The rows of `describe`. Pure."""
    hosts = {m.member_id: m.host for m in group.members}
    return [
        (
            group.group,
            p.topic,
            p.partition,
            p.committed_offset,
            p.end_offset,
            p.lag,
            p.owner,
            hosts.get(p.owner or "") or p.node,
            p.epoch,
            None if p.lease_expires_ms is None else f"{p.lease_expires_ms / 1000:.1f}s",
        )
        for p in group.partitions
    ]


@app.command()
def seek(
    group: Name,
    to: Annotated[
        str, typer.Option("--to", help="earliest, latest, an offset, -5 or +5 (shift), @TIME.")
    ],
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="Only this topic; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", min=0, help="Only this partition.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without, only what would change is shown.")
    ] = False,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Move a group that has no member: shows FROM → TO, and changes nothing without --execute.

    Refused, naming the owner, while the group has members.
    """
    position = position_of(to, relative_to="committed")
    with admin(None, service, timeout_s) as client:
        answer = client.seek(
            group,
            position.to,
            offset=position.offset,
            time=position.time,
            shift=position.shift,
            topics=topic,
            partition=partition,
            dry_run=not execute,
        )
    if as_json:
        print_json(answer.model_dump())
        return
    print_table(
        ("TOPIC", "PARTITION", "FROM", "", "TO"),
        [(m.topic, m.partition, m.from_offset, "→", m.to_offset) for m in answer.partitions],
    )
    if not answer.executed:
        note("nothing has changed; add --execute to do it")


@app.command()
def delete(
    group: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
) -> None:
    """Forget the positions of a group that has no member."""
    if not yes:
        typer.confirm(f"Delete group {group} and its positions?", abort=True)
    with admin(None, service, timeout_s) as client:
        client.delete_group(group)
    print(f"deleted {group}")
