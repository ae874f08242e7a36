"""The figures as a table, and the table in its page."""

from __future__ import annotations

from typing import Any

from bench import machine

BEGINS, ENDS = "<!-- begin bench-sqs -->", "<!-- end bench-sqs -->"
_TARGETS = (
    ("`SendMessage`, 16 connections, 1 kB", "send", "per_s", "≥ 1,000/s, p99 ≤ 100 ms"),
    ("`SendMessageBatch` of ten", "send_batch", "messages_per_s", "≥ 5,000 messages/s"),
    (
        "receive and delete in batches of ten, 32 workers",
        "receive_delete",
        "messages_per_s",
        "≥ 3,000 messages/s",
    ),
)


def render(found: dict[str, Any]) -> str:
    """A column for each server."""
    servers = found["servers"]
    rows = [
        ["", *(one["name"] for one in servers), "target"],
        ["---"] * (len(servers) + 2),
        ["durable when answered", *(one["durability"] for one in servers), ""],
    ]
    for title, part, rate, target in _TARGETS:
        rows.append([title, *(_rate(one["figures"][part], rate) for one in servers), target])
    for title, part, name, target in (
        ("a waiting receive, after the send began", "waiting", "sent_to_received", ""),
        (
            "a waiting receive, after the send was answered",
            "waiting",
            "answered_to_received",
            "p99 ≤ 150 ms",
        ),
        ("send or delete, nothing else running", "waiting", "durable", "worst ≤ 300 ms"),
        ("`ListQueues`, 1,000 queues", "list_queues", "", "≤ 50 ms"),
    ):
        figures = [one["figures"][part] for one in servers]
        rows.append([title, *(_times(one.get(name, one)) for one in figures), target])
    rows.append(
        [
            "fixed work of one core, before it (ms)",
            *(str(one["calibration"]["loop_ms"]) for one in servers),
            "",
        ]
    )
    where = found["machine"]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += [
        "",
        f"{machine.sentence(where)} Load and all processes of the queue are on it;"
        f" {found['seconds']:.0f} s a measure. Measured"
        f" {where['measured_at'][:10]} by `make bench-sqs`, at a load average of"
        f" {servers[0]['calibration']['load_average']}.",
        "",
    ]
    return "\n".join(lines)


def _rate(figures: dict[str, Any], rate: str) -> str:
    if "failed" in figures:
        return "failed"
    text = f"{figures[rate]:,}/s"
    if "p99_ms" in figures:
        text += f", p50 {figures['p50_ms']:.0f} ms, p99 {figures['p99_ms']:.0f} ms"
    return text


def _times(figures: dict[str, Any]) -> str:
    if "failed" in figures:
        return "failed"
    p50, p99, worst = (figures[name] for name in ("p50_ms", "p99_ms", "worst_ms"))
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms"


def into(page: str, table: str) -> str:
    """The page with this table between its marks. Raises `ValueError` if it has none."""
    before, _, rest = page.partition(BEGINS)
    _, mark, after = rest.partition(ENDS)
    if not mark:
        raise ValueError(f"the page has no {BEGINS} … {ENDS}")
    return f"{before}{BEGINS}\n{table}{ENDS}{after}"
