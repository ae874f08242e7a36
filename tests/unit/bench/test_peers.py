"""The load of `make bench-peers`, on a system that needs no server; and the page that it writes."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.peers.clients.interface import BatchSender, Drained
from bench.peers.clients.load import ADAPTERS, RECEIVERS, Receiving, Sending, drained
from bench.peers.measure import Plan, percentiles, rate_of
from bench.peers.plots import draw
from bench.peers.report import Found, Results, readme, render
from bench.peers.systems.registry import SYSTEMS
from bench.peers.usage import used
from tests.support.machine import idle_machine

MACHINE: Any = idle_machine()


def _found(scale: float, *, sql: bool = False) -> dict[str, Any]:
    times = {"p50_ms": 10 * scale, "p90_ms": 20 * scale, "p99_ms": 50 * scale}
    paced = {"acked": times, "sql" if sql else "consumer": times, "records": 10, "missing": 0}
    fast = {
        "acked_per_s": 1_000 * scale,
        "through_per_s": 900 * scale,
        "cpu_s_per_million": 7.0,
        "services_cpu_s_per_million": 5.0,
        "written_per_byte": 2.0,
        "records": 10,
        "missing": 0,
    }
    return {
        **{f"paced_{size}": paced for size in (1_000, 100)},
        **{f"fast_{size}": fast for size in (1_000, 100)},
        "pss_mib": 100,
        "work": {"per_s": 2_000 * scale},
        **{
            f"drain_{size}": {
                "records": 300,
                "missing": 0,
                "per_s": 5_000 * scale,
                "mb_per_s": 5 * scale,
                "cpu_s_per_million": 3.0,
                "services_cpu_s_per_million": 2.0,
            }
            for size in (1_000, 100)
        },
    }


def _system(title: str, *rounds: dict[str, Any], problem: str = "") -> Found:
    return {
        "title": title,
        "version": "1",
        "promise": "fsynced",
        "settings": "defaults",
        "rounds": list(rounds),
        "problems": [problem] if problem else [],
    }


def _results(**systems: Found) -> Results:
    plan = {"warm_up_s": 5.0, "spark_warm_up_s": 20.0, "paced_s": 12.0, "fast_s": 5.0}
    plan |= {"fast_most": 250_000, "work_records": 30_000, "workers": 48}
    return {"machine": MACHINE, "quick": False, "seconds": 60.0, "plan": plan, "systems": systems}


def test_every_paced_record_is_sent_acknowledged_and_received_once(tmp_path: Path) -> None:
    place = {"table": str(tmp_path / "table")}
    sending, receiving = Sending("delta", place), Receiving("commits", place)
    try:
        receiving.begin({"phase": 1, "skip": 20, "paced": True})
        sent = sending.phase(
            {"phase": 1, "size": 100, "rate": 500, "seconds": 1, "most": 100, "skip": 20}
        )
        got = receiving.finish({"count": 100, "within_s": 30.0})
    finally:
        sending.close()
        receiving.close()
    assert (sent["sent"], got["received"], got["again"]) == (100, 100, 0)
    assert len(sent["took_ns"]) == len(got["took_ns"]) == 80
    assert min(sent["took_ns"]) > 0
    assert sent["ended"] - sent["began"] >= 99 / 500 * 1e9


def test_a_phase_as_fast_as_it_goes_ends_at_its_number_of_records(tmp_path: Path) -> None:
    place = {"table": str(tmp_path / "table")}
    sending, receiving = Sending("delta", place), Receiving("commits", place)
    try:
        receiving.begin({"phase": 2, "skip": 0, "paced": False})
        order = {"phase": 2, "size": 1_000, "rate": 0, "seconds": 60, "most": 3_000, "skip": 0}
        sent = sending.phase(order)
        got = receiving.finish({"count": 3_000, "within_s": 30.0})
    finally:
        sending.close()
        receiving.close()
    assert (sent["sent"], got["received"]) == (3_000, 3_000)
    assert got["ended"] >= sent["began"]


def test_a_record_that_does_not_come_is_seen(tmp_path: Path) -> None:
    receiving = Receiving("commits", {"table": str(tmp_path / "none")})
    try:
        receiving.begin({"phase": 1, "skip": 0, "paced": True})
        assert receiving.finish({"count": 1, "within_s": 0.05})["received"] == 0
    finally:
        receiving.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sending_thread_that_fails_is_heard_of() -> None:
    def refuse(_: list[tuple[int, bytes]]) -> None:
        raise ValueError("no room")

    sender = BatchSender(refuse, lambda _: None, most=10)
    sender.send(0, 0, b"x")
    sender.close()
    with pytest.raises(RuntimeError, match="has ended"):
        sender.send(1, 0, b"y")


def test_a_rate_leaves_out_the_start_and_the_stragglers() -> None:
    steady = Counter(dict.fromkeys(range(100, 200), 100))
    assert rate_of(steady, 50_000_000) == 2_000
    late = steady + Counter({1_000: 500})
    assert rate_of(late, 50_000_000) == 2_000
    assert rate_of(Counter({1: 10}), 50_000_000) is None


def test_percentiles_are_in_milliseconds() -> None:
    assert percentiles([]) is None
    found = percentiles([number * 1_000_000 for number in range(101)])
    assert found == {"p50_ms": 50.0, "p90_ms": 90.0, "p99_ms": 99.0}


def test_cpu_of_a_process_grows() -> None:
    before = used([os.getpid()])
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert (used([os.getpid()]) - before).cpu_s >= 0.02


def test_a_system_that_is_not_installed_says_so_in_its_row() -> None:
    page = render(
        _results(
            lakequeue=_system("lakequeue", _found(1.0), _found(3.0), _found(2.0)),
            redis=_system("Redis", problem="not installed: no apt-get"),
        )
    )
    assert "| lakequeue | 20 (10–30) / 100 (50–150) |" in page
    assert "| Redis | did not run: not installed: no apt-get |" in page
    assert "## What went wrong" in page


def test_records_that_did_not_come_stand_on_the_page() -> None:
    found = _found(1.0)
    found["fast_100"] = found["fast_100"] | {"missing": 7, "through_per_s": None}
    page = render(_results(lakequeue=_system("lakequeue", found)))
    assert "of 10 records, 7 did not come" in page


class _Log:
    """Reads two records a call, with values of five bytes."""

    def __init__(self, count: int) -> None:
        self._left, self._at = count, 0

    def read(self, seconds: float, most: int) -> Drained:
        offsets = range(self._at, self._at + min(most, 2, self._left))
        self._at, self._left = self._at + len(offsets), self._left - len(offsets)
        return Drained(len(offsets), 5 * len(offsets), sum(offsets))

    def close(self) -> None: ...


def test_draining_counts_what_was_read_after_the_first_records() -> None:
    found = drained(_Log(9), 7, 30.0)
    assert (found["received"], found["counted"]) == (7, 5)
    assert (found["bytes"], found["offsets"]) == (35, sum(range(7)))
    assert found["seconds"] > 0
    assert drained(_Log(3), 7, 0.01)["received"] == 3


def test_as_many_records_stand_in_each_partition() -> None:
    plan = Plan(drain_bytes=100_100, drain_most=500)
    assert [plan.drained(size) for size in (1_000, 100)] == [96, 496]


def test_the_page_shows_what_one_consumer_drains() -> None:
    plain = _found(1.0)
    del plain["drain_100"]
    del plain["drain_1000"]
    page = render(
        _results(
            lakequeue=_system("lakequeue", _found(1.0), _found(2.0)),
            redis=_system("Redis", plain),
        )
    )
    part = page.split("to one consumer, 1,000 B\n")[1].split("##")[0]
    assert "| lakequeue | 7,500 (5,000–10,000) | 7.5 (5.0–10.0) | 3.0 | 2.0 |" in part
    assert "Redis" not in part
    found = _found(1.0)
    found["drain_100"] = found["drain_100"] | {"missing": 7, "per_s": None, "mb_per_s": None}
    assert "7 did not come" in render(_results(lakequeue=_system("lakequeue", found)))


def test_the_readme_has_multiples_and_names_what_did_not_run() -> None:
    text = readme(
        _results(
            lakequeue=_system("lakequeue", _found(1.0)),
            delta=_system("Kafka → Delta", _found(20.0, sql=True)),
            redis=_system("Redis", problem="not installed"),
        )
    )
    row = "| Kafka → Delta | 0.05 × | 0.05 × | 0.05 × | 0.05 × | 0.05 × | 1 × | 1 × | fsynced |"
    assert row in text
    assert "| Redis | did not run |" in text


def test_the_plots_show_what_has_figures(tmp_path: Path) -> None:
    found = _results(
        lakequeue=_system("lakequeue", _found(1.0), _found(2.0)),
        redis=_system("Redis", problem="not installed"),
    )
    draw(found, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"peers-{what}-{size}.svg" for what in ("latency", "throughput") for size in (1_000, 100)
    }
    text = (tmp_path / "peers-latency-1000.svg").read_text()
    assert "at a consumer" in text
    assert "visible to SQL" not in text, "nobody has such a figure"


def test_every_system_says_what_it_promises_and_has_an_adapter() -> None:
    assert len({kind.name for kind in SYSTEMS}) == len(SYSTEMS) == 8
    for kind in SYSTEMS:
        assert kind.promise
        assert kind.settings
    folder = Path(__file__).parents[3] / "bench/peers/clients"
    for module, _ in (*ADAPTERS.values(), *RECEIVERS.values()):
        assert (folder / f"{module}.py").exists()
