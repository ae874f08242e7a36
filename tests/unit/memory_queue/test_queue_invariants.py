"""Whatever workers, producers and the clock do: no loss, nothing after its ack, attempts rise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tests.support.examples import examples
from tests.unit.memory_queue.wire_calls import Calls

VISIBILITY_MS = 10_000
MAX_ATTEMPTS = 3
SECOND = 1_000_000


@dataclass
class Known:
    """What the model knows of a record."""

    delay_ms: int
    sent_at: int
    attempts: list[int] = field(default_factory=list)
    hidden_until: int = 0
    """Microseconds: not to be delivered before, but when its worker leaves."""
    holder: str | None = None
    settled: bool = False


class Workers(RuleBasedStateMachine):
    """A queue group with up to a few workers, in no order of keys."""

    joined = Bundle("joined")

    def __init__(self) -> None:
        super().__init__()
        self.call = Calls()
        self.call.good("PUT", "/v1/topics/t", {"partitions": 2})
        self.records: dict[tuple[int, int], Known] = {}
        self.receipts: list[tuple[tuple[int, int], int, str]] = []

    @property
    def now(self) -> int:
        return self.call.service.clock.micros()

    @rule(partition=st.integers(0, 1), delay_ms=st.sampled_from([0, 0, 5_000, 20_000]))
    def send(self, partition: int, delay_ms: int) -> None:
        record = {"value": "v", "partition": partition, "delay_ms": delay_ms}
        sent_at = self.now
        said = self.call.good("POST", "/v1/topics/t/records", {"records": [record]}, wait="ordered")
        (placed,) = said["records"]
        place = placed["partition"], placed["offset"]
        assert place not in self.records
        self.records[place] = Known(delay_ms, sent_at)

    @rule(target=joined)
    def join(self) -> str:
        return self._join()

    def _join(self) -> str:
        options = {
            "topics": ["t"],
            "mode": "queue",
            "visibility_timeout_ms": VISIBILITY_MS,
            "max_attempts": MAX_ATTEMPTS,
        }
        member: str = self.call.good("POST", "/v1/groups/g/members", options)["member_id"]
        return member

    @rule(member=consumes(joined))
    def leave(self, member: str) -> None:
        self.call.good("DELETE", f"/v1/groups/g/members/{member}")
        for known in self.records.values():
            if known.holder == member:
                known.hidden_until = 0

    @rule(member=joined, most=st.integers(1, 4))
    def poll(self, member: str, most: int) -> None:
        path = f"/v1/groups/g/members/{member}/records"
        for record in self.call.good("GET", path, max=most, wait_ms=0)["records"]:
            self._delivered(record, member)

    def _delivered(self, record: dict[str, Any], member: str) -> None:
        place, now = (record["partition"], record["offset"]), self.now
        known = self.records[place]
        assert not known.settled, "nothing comes after its ack"
        assert record["attempt"] == len(known.attempts) + 1, "attempts rise by one"
        assert record["attempt"] <= MAX_ATTEMPTS
        assert known.hidden_until <= now, "nobody else has it, and it does not rest"
        assert known.sent_at + known.delay_ms * 1_000 <= now, "it is not early"
        known.attempts.append(record["attempt"])
        known.hidden_until, known.holder = record["deadline"], member
        self.receipts.append((place, record["attempt"], record["receipt"]))

    @rule(which=st.integers(0, 50), does=st.sampled_from(["ack", "nack", "extend"]), by=joined)
    def settle(self, which: int, does: str, by: str) -> None:
        if not self.receipts:
            return
        place, attempt, receipt = self.receipts[which % len(self.receipts)]
        known, now = self.records[place], self.now
        body: dict[str, Any] = {"acks": [receipt]}
        if does == "nack":
            body = {"nacks": [{"receipt": receipt, "delay_ms": 7_000}]}
        elif does == "extend":
            body = {"extend": [{"receipt": receipt, "visibility_timeout_ms": 30_000}]}
        status, said = self.call("POST", f"/v1/groups/g/members/{by}/acks", body)
        if status == 409:
            (refused,) = said["refused"]
            assert refused["attempt"] == attempt
            return
        assert status == 200, said
        if known.settled:
            assert does == "ack", "only the same ack is taken twice"
            return
        assert attempt == known.attempts[-1], "an older attempt is refused"
        if does == "ack":
            known.settled = True
        elif does == "nack":
            known.hidden_until, known.holder = now + 7 * SECOND, None
            # After the last attempt it is dead.
            known.settled = attempt == MAX_ATTEMPTS
        else:
            known.hidden_until = max(known.hidden_until, now + 30 * SECOND)

    @rule(seconds=st.integers(1, 15))
    def time_passes(self, seconds: int) -> None:
        self.call.service.clock.advance(seconds)

    @invariant()
    def offsets_are_gapless(self) -> None:
        for partition in range(2):
            mine = [offset for p, offset in self.records if p == partition]
            assert sorted(mine) == list(range(len(mine)))

    def teardown(self) -> None:
        """All that is left comes to one who settles half of it: each record is acked, or dead."""
        member = self._join()
        for _ in range(2 * MAX_ATTEMPTS):
            self.call.service.clock.advance(60)
            while self._drained(member):
                pass
        open_still = [place for place, known in self.records.items() if not known.settled]
        dead = {
            (int(headers["lakequeue-partition"]), int(headers["lakequeue-offset"])): headers
            for headers in self._dead_letters()
        }
        assert set(open_still) <= set(dead), "nothing is lost"
        for place, headers in dead.items():
            assert self.records[place].attempts == [1, 2, 3]
            assert headers["lakequeue-attempts"] == "3"
        rows = self.call.good("GET", "/v1/groups/g")["partitions"]
        assert [row["lag"] for row in rows] == [0, 0]

    def _drained(self, member: str) -> bool:
        path = f"/v1/groups/g/members/{member}"
        records = self.call.good("GET", f"{path}/records", max=50, wait_ms=0)["records"]
        for record in records:
            self._delivered(record, member)
        done = [r for r in records if r["offset"] % 2]
        for record in done:
            self.records[record["partition"], record["offset"]].settled = True
        self.call.good("POST", f"{path}/acks", {"acks": [r["receipt"] for r in done]})
        return bool(records)

    def _dead_letters(self) -> list[dict[str, str]]:
        if self.call("GET", "/v1/topics/t.dlq")[0] == 404:
            return []
        found = []
        for partition in range(2):
            page = self.call.good("GET", "/v1/topics/t.dlq/records", partition=partition, max=1000)
            found += [{h["key"]: h["value"] for h in r["headers"]} for r in page["records"]]
        places = [(h["lakequeue-partition"], h["lakequeue-offset"]) for h in found]
        assert len(places) == len(set(places)), "each is dead once"
        return found


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
