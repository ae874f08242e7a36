"""The page docs/benchmarks/profile.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import machine
from bench.figures import rows_of

WAYS = (
    ("paced", "At 1,000 records/s"),
    ("fast", "As fast as it goes"),
    ("json_in", "Sent in JSON, 500 a request"),
    ("json_out", "Read in JSON, 5,000 an answer"),
    ("drained", "Drained by a consumer"),
)
LEAST_S = 0.1
"""A process that takes less of a way, in seconds per million records, has no column there."""


def render(results: Mapping[str, Any]) -> str:
    """All tables."""
    stages = [
        [
            one["stage"],
            one["holds"],
            f"{one['mean_ms']:.1f}",
            f"{one['p50_ms']:.1f}",
            f"{one['p99_ms']:.1f}",
            f"{one['share']:.0%}",
        ]
        for one in results["stages"]
    ]
    total = sum(one["mean_ms"] for one in results["stages"])
    stages.append(["all", "", f"{total:.1f}", "", "", "100%"])
    where = results["machine"]
    return "\n".join(
        [
            "# Where the time and the CPU of a record go",
            "",
            f"Written by `make profile` on {where['measured_at'][:10]}: one node of each kind, 8 "
            "partitions, records of 1 kB, one producer and one consumer on the same machine. "
            f"{machine.sentence(where)}",
            "",
            "## Time, at 1,000 records/s",
            "",
            f"{results['records']:,} of {results['of']:,} records, of which every station is known "
            "(not of those that a batch before or after this window ordered).",
            "",
            *rows_of(["stage", "what is in it", "mean ms", "p50", "p99", "share of mean"], stages),
            *_triggers(dict(results["triggers_ms"])),
            "What the processes count of themselves meanwhile (`/metrics`): how often for 1,000 "
            "records, and the mean of each. A commit of a group or a batch is *gathering* (waiting "
            "for more records), *writing* (Parquet) and *committing*; `sync` is fsync.",
            "",
            *rows_of(
                ["process", "metric", "of", "per 1,000 records", "mean ms"],
                [
                    [
                        one["process"],
                        f"`{one['metric']}`",
                        one["labels"],
                        f"{one['per_1000']:.1f}",
                        f"{one['mean_ms']:.2f}",
                    ]
                    for one in results["counted"]
                ],
            ),
            "## CPU seconds per million records, by process",
            "",
            f"As fast as it goes was {results['fast_per_s']:,} records/s through. What sends and "
            "reads in JSON is the benchmark itself, and not counted.",
            "",
            *_cpu(results["cpu"]),
            *_samples(results),
            *_floors(results["floors"]),
            "## Flame graphs",
            "",
            "At 1,000 records/s. Some waits in selectors and sockets show as well.",
            "",
            *(f"- [{name}]({file})" for name, file in results["flames"].items()),
            "",
        ]
    )


def _cpu(cpu: Mapping[str, Mapping[str, float]]) -> list[str]:
    ways = [(way, title) for way, title in WAYS if way in cpu]
    names = sorted(cpu["fast"], key=lambda name: -cpu["fast"][name])
    rows = [[name, *(f"{cpu[way].get(name, 0):.1f}" for way, _ in ways)] for name in names]
    rows.append(["all", *(f"{sum(cpu[way].values()):.1f}" for way, _ in ways)])
    return rows_of(["process", *(title[0].lower() + title[1:] for _, title in ways)], rows)


def _triggers(phases: dict[str, float]) -> list[str]:
    count = phases.pop("triggers")
    return [
        f"A trigger of the order job, by Spark's own report (mean ms of {count:,.0f} triggers; "
        "`addBatch` is the batch above; `latestOffset` waits for records, and for the pace of "
        "batches):",
        "",
        *rows_of(["phase", "ms"], [[f"`{name}`", f"{ms:.1f}"] for name, ms in phases.items()]),
    ]


def _floors(floors: Mapping[str, Mapping[str, float]]) -> list[str]:
    trigger, bulk = floors["trigger_ms"], dict(floors["bulk_us"])
    bulk["all"] = sum(bulk.values())
    return [
        "## What Spark and the libraries take alone",
        "",
        "A trigger of a query that does nothing with its batches, of 20 rows each that Spark makes "
        "itself (mean ms). `walCommit` and `commitOffsets` are its checkpoint in a local folder: "
        "Hadoop's file system starts a program for each of its files. lakequeue's queries use one "
        "that does not.",
        "",
        *rows_of(["phase", "ms"], [[f"`{name}`", f"{ms:.1f}"] for name, ms in trigger.items()]),
        "CPU of the library of each step between a request and an answer in JSON, for a record of "
        "1 kB, in one thread, on bytes that are at hand: no HTTP, no checks, no deduplication, no "
        "commit.",
        "",
        *rows_of(["step", "µs a record"], [[step, f"{us:.2f}"] for step, us in bulk.items()]),
    ]


def _samples(results: Mapping[str, Any]) -> list[str]:
    """CPU seconds of a stage: the process's seconds times the share of its samples."""
    lines = [
        "## CPU of the Python processes, by stage",
        "",
        "CPU seconds per million records: those of the process, divided by py-spy's samples. A "
        "sample counts for the innermost function that belongs to a stage; threads that wait "
        "do not count. *other* is mostly the interpreter's own libraries, below none of ours.",
        "",
    ]
    for way, title in WAYS:
        if way not in results["samples"]:
            continue
        shares, cpu = results["samples"][way], results["cpu"][way]
        names = [name for name in shares if cpu.get(name, 0) >= LEAST_S]
        stages: dict[str, dict[str, float]] = {}
        for name in names:
            for stage, share in shares[name].items():
                stages.setdefault(stage, {})[name] = share * cpu[name]
        rows = [
            [stage, *(f"{cells[n]:.1f}" if n in cells else "" for n in names),
             f"{sum(cells.values()):.1f}"]
            for stage, cells in sorted(stages.items(), key=lambda one: -sum(one[1].values()))
        ]  # fmt: skip
        lines += [f"### {title}", "", *rows_of(["stage", *names, "all"], rows)]
    return lines
