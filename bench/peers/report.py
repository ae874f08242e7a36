"""A run as Markdown: medians with their ends, promises, settings; and the README's part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from bench import machine
from bench.figures import Spread, rows_of, spread
from bench.peers.systems.system import SIZES

LATENCIES = (("acked", "acknowledged"), ("consumer", "at a consumer"), ("sql", "visible to SQL"))

COSTS = (
    ("cpu_s_per_million", "CPU s per million"),
    ("services_cpu_s_per_million", "services' CPU s"),
    ("written_per_byte", "bytes written per byte"),
)


class Found(TypedDict):
    """One system, in all rounds."""

    title: str
    version: str
    promise: str
    settings: str
    rounds: list[dict[str, Any]]
    problems: list[str]


class Results(TypedDict):
    """A whole run; peers.json."""

    machine: machine.Machine
    quick: bool
    seconds: float
    plan: dict[str, Any]
    systems: dict[str, Found]


Of = Callable[[dict[str, Any]], float | None]


def spread_of(found: Found, of: Of) -> Spread | None:
    """The figure's median and ends over the rounds that have it."""
    values = [value for one in found["rounds"] if (value := _of(one, of)) is not None]
    return spread(values) if values else None


def _of(one: dict[str, Any], of: Of) -> float | None:
    try:
        return of(one)
    except (KeyError, TypeError):  # this system has no such figure
        return None


def latency(size: int, what: str, part: str) -> Of:
    """A percentile of a paced phase."""
    return lambda one: one[f"paced_{size}"][what][f"{part}_ms"]


def fast(size: int, what: str) -> Of:
    """A figure of a phase as fast as it goes."""
    return lambda one: one[f"fast_{size}"][what]


def _cell(found: Found, of: Of, digits: int = 0) -> str:
    numbers = spread_of(found, of)
    return "–" if numbers is None else numbers.shown(digits)


def _latency_cell(found: Found, size: int, what: str) -> str:
    cells = []
    for part in ("p50", "p99"):
        numbers = spread_of(found, latency(size, what, part))
        if numbers is None:
            return "–"
        cells.append(numbers.shown(1 if numbers.median < 10 else 0))
    return " / ".join(cells)


def _rows(results: Results, cells: Callable[[Found], Sequence[str]]) -> list[list[str]]:
    """A row a system; one that could not run says why."""
    rows = []
    for found in results["systems"].values():
        if found["rounds"]:
            rows.append([found["title"], *cells(found)])
        else:
            rows.append([found["title"], f"did not run: {found['problems'][0]}"])
    width = max(len(row) for row in rows)
    return [[*row, *[""] * (width - len(row))] for row in rows]


def render(results: Results) -> str:
    """The page docs/benchmarks/peers.md."""
    plan, rounds = results["plan"], max(len(f["rounds"]) for f in results["systems"].values())
    lines = [
        "# Beside other systems",
        "",
        f"Written by `make bench-peers` on {results['machine']['measured_at'][:10]}, in one run of "
        f"{results['seconds'] / 60:.0f} minutes. {machine.sentence(results['machine'])}",
        "",
    ]
    if results["quick"]:
        lines += ["**A trial (`--quick`), with short phases: do not quote these figures.**", ""]
    lines += [
        f"Rounds: {rounds}, the systems in turns, each started anew in an empty folder. A cell is "
        "the median (least–most) of the rounds. Services, producer and consumer share the machine; "
        "the producer is one Python process with the usual client of its system, and so is the "
        "consumer. In each round: warm-up at 1,000 records/s of 1 kB "
        f"({plan['warm_up_s']:.0f} s; {plan['spark_warm_up_s']:.0f} s with Spark), "
        f"{plan['paced_s']:.0f} s at 1,000/s for each size, then {plan['fast_s']:.0f} s (at most "
        f"{plan['fast_most']:,} records) as fast as it goes for each size, with 20,000 records "
        "not yet acknowledged at most. Who reads a table for *visible to SQL* counts as a client, "
        "with lakequeue as well.",
        "",
    ]
    for size in SIZES:
        lines += [
            f"## At 1,000 records/s of {size:,} B: milliseconds, p50 / p99",
            "",
            "From the moment at which a record was due. So few records come together that each of "
            "them pays for more commits than below: CPU and bytes are shown beside.",
            "",
            *rows_of(
                ["system", *(title for _, title in LATENCIES), *(title for _, title in COSTS)],
                _rows(results, lambda f, s=size: _paced_cells(f, s)),  # type: ignore[misc]
            ),
            f"![Latencies](peers-latency-{size}.svg)",
            "",
        ]
    for size in SIZES:
        lines += [
            f"## As fast as it goes, {size:,} B",
            "",
            "*Through* is from the first record sent to the last one received. CPU is of services "
            "and clients together (services alone in the next column).",
            "",
            *rows_of(
                ["system", "acknowledged/s", "through/s", *(title for _, title in COSTS)],
                _rows(results, lambda f, s=size: _fast_cells(f, s)),  # type: ignore[misc]
            ),
            f"![Records a second](peers-throughput-{size}.svg)",
            "",
        ]
    lines += _drains(results) + _work(results) + _promises(results) + _problems(results)
    return "\n".join(lines)


def drain(size: int, what: str) -> Of:
    """A figure of draining."""
    return lambda one: one[f"drain_{size}"][what]


def _drains(results: Results) -> list[str]:
    lines = []
    for size in SIZES:
        rows = [
            [
                found["title"],
                _cell(found, drain(size, "per_s")),
                _cell(found, drain(size, "mb_per_s"), 1),
                _cell(found, drain(size, "cpu_s_per_million"), 1),
                _cell(found, drain(size, "services_cpu_s_per_million"), 1),
            ]
            for found in results["systems"].values()
            if spread_of(found, drain(size, "records")) is not None
        ]
        if not rows:
            continue
        count = max(
            one[f"drain_{size}"]["records"]
            for found in results["systems"].values()
            for one in found["rounds"]
            if f"drain_{size}" in one
        )
        head = ["system", "records/s", "MB/s", "CPU s per million", "services' CPU s"]
        lines += [
            f"## What stands in the log, to one consumer, {size:,} B",
            "",
            f"{count:,} records that are there already. A new group reads them from the earliest, "
            "looks at the value and the offset of each, and settles them as its client does. From "
            "the first records to the last ones.",
            "",
            *rows_of(head, rows),
        ]
    return lines


def _paced_cells(found: Found, size: int) -> list[str]:
    costs = [_cell(found, lambda one, w=what: one[f"paced_{size}"][w], 1) for what, _ in COSTS]  # type: ignore[misc]
    return [*(_latency_cell(found, size, what) for what, _ in LATENCIES), *costs]


def _fast_cells(found: Found, size: int) -> list[str]:
    return [
        _cell(found, fast(size, "acked_per_s")),
        _cell(found, fast(size, "through_per_s")),
        _cell(found, fast(size, "cpu_s_per_million"), 1),
        _cell(found, fast(size, "services_cpu_s_per_million"), 1),
        _cell(found, fast(size, "written_per_byte"), 2),
    ]


def work_rate(one: dict[str, Any]) -> float | None:
    """Deliveries and acks a second of a round."""
    rate: float | None = one["work"]["per_s"]
    return rate


def _work(results: Results) -> list[str]:
    rows = [
        [found["title"], _cell(found, work_rate)]
        for found in results["systems"].values()
        if spread_of(found, work_rate) is not None
    ]
    if not rows:
        return []
    plan = results["plan"]
    return [
        f"## A work queue: {plan['workers']} workers take ten and settle ten",
        "",
        f"{plan['work_records']:,} records of 1 kB that are there already; the workers are threads "
        "of two Python processes.",
        "",
        *rows_of(["system", "delivered and acked/s"], rows),
    ]


def _promises(results: Results) -> list[str]:
    return [
        "## What an acknowledgement promises, what was set, and memory",
        "",
        *rows_of(
            [
                "system",
                "release",
                "acknowledged means",
                "settings",
                "memory, MiB",
            ],
            [
                [
                    found["title"],
                    found["version"],
                    found["promise"],
                    found["settings"],
                    _cell(found, lambda one: one["pss_mib"]),
                ]
                for found in results["systems"].values()
            ],
        ),
    ]


def _problems(results: Results) -> list[str]:
    said = [
        f"- {found['title']}: {problem}"
        for found in results["systems"].values()
        for problem in found["problems"]
    ]
    missing = [
        f"- {found['title']}: of {phase['records']:,} records, {phase['missing']:,} did not come"
        for found in results["systems"].values()
        for one in found["rounds"]
        for phase in one.values()
        if isinstance(phase, dict) and phase.get("missing")
    ]
    return ["## What went wrong", "", *said, *missing, ""] if said or missing else []


def readme(results: Results) -> str:
    """The README's part: what lakequeue takes, as a multiple of what each other system takes."""
    ours = results["systems"]["lakequeue"]
    columns: tuple[tuple[str, Of, Of], ...] = (
        *(
            (f"end to end {p}", latency(1_000, "consumer", p), _end_to_end(p))
            for p in ("p50", "p99")
        ),
        ("through/s", fast(1_000, "through_per_s"), fast(1_000, "through_per_s")),
        ("drained/s", drain(1_000, "per_s"), drain(1_000, "per_s")),
        ("work queue/s", work_rate, work_rate),
        *((name, fast(1_000, key), fast(1_000, key)) for name, key in (
            ("CPU a record", "cpu_s_per_million"), ("bytes written", "written_per_byte"))),
    )  # fmt: skip
    rows = []
    for name, found in results["systems"].items():
        if name == "lakequeue":
            continue
        if not found["rounds"]:
            rows.append([found["title"], "did not run"])
            continue
        cells = [_times(spread_of(ours, of), spread_of(found, of_it)) for _, of, of_it in columns]
        rows.append([found["title"], *cells, found["promise"]])
    width = len(columns) + 2
    head = ["lakequeue, as a multiple of", *(title for title, _, _ in columns), "its fsync"]
    trial = "**A trial: do not quote.** " if results["quick"] else ""
    return "\n".join(
        [
            *rows_of(head, [[*row, *[""] * (width - len(row))] for row in rows]),
            f"{trial}Medians of one run, 1 kB, 8 partitions, at 1,000 records/s; what goes"
            " into Delta without a consumer of its own counts when SQL sees it. Measured "
            f"{results['machine']['measured_at'][:10]} by `make bench-peers`; all figures, "
            "settings and the machine: [docs/benchmarks/peers.md](docs/benchmarks/peers.md).",
            "",
        ]
    )


def _end_to_end(part: str) -> Of:
    def of(one: dict[str, Any]) -> float | None:
        paced = one["paced_1000"]
        found: float = (paced.get("consumer") or paced["sql"])[f"{part}_ms"]
        return found

    return of


def _times(ours: Spread | None, theirs: Spread | None) -> str:
    """`0.06 ×`, `210 ×`"""
    if ours is None or theirs is None or not theirs.median:
        return "–"
    ratio = ours.median / theirs.median
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"
