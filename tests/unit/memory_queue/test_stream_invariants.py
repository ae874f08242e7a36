"""Whatever members and producers do: a group reads each partition in order, from where it is."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule

from tests.support.examples import examples
from tests.unit.memory_queue.wire_calls import Calls

PARTITIONS = 3


class Readers(RuleBasedStateMachine):
    """A stream group with up to a few members."""

    joined = Bundle("joined")

    def __init__(self) -> None:
        super().__init__()
        self.call = Calls()
        self.ends = [0] * PARTITIONS
        self.committed = [0] * PARTITIONS
        self.owned: dict[str, dict[int, tuple[int, int]]] = {}
        """Member → partition → (epoch, next offset that it is to be given)."""
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.epochs = [0] * PARTITIONS

    @initialize()
    def create(self) -> None:
        self.call.good("PUT", "/v1/topics/t", {"partitions": PARTITIONS})

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))
    def send(self, partition: int, count: int) -> None:
        records = [{"value": n, "partition": partition} for n in range(count)]
        said = self.call.good("POST", "/v1/topics/t/records", {"records": records}, wait="ordered")
        offsets = [r["offset"] for r in said["records"]]
        assert offsets == list(range(self.ends[partition], self.ends[partition] + count))
        self.ends[partition] += count

    @rule(target=joined)
    def join(self) -> str:
        return self._join()

    def _join(self) -> str:
        said = self.call.good("POST", "/v1/groups/g/members", {"topics": ["t"]})
        member: str = said["member_id"]
        self.owned[member] = {}
        return member

    @rule(member=consumes(joined))
    def leave(self, member: str) -> None:
        self.call.good("DELETE", f"/v1/groups/g/members/{member}")
        del self.owned[member]

    @rule(member=joined, most=st.integers(1, 5))
    def poll(self, member: str, most: int) -> None:
        path = f"/v1/groups/g/members/{member}/records"
        said = self.call.good("GET", path, max=most, wait_ms=0)
        mine = {a["partition"]: a for a in said["assignment"]}
        before, now = self.owned[member], {}
        for partition, told in mine.items():
            epoch, following = before.get(partition, (0, 0))
            if epoch != told["epoch"]:
                assert told["epoch"] > self.epochs[partition], "a new owner has a new epoch"
                assert told["start"] == self.committed[partition], "it goes on where the group is"
                epoch, following = told["epoch"], told["start"]
                self.epochs[partition] = epoch
            now[partition] = (epoch, following)
        for record in said["records"]:
            partition, offset = record["partition"], record["offset"]
            epoch, following = now[partition]
            assert offset == following, "in order, and none is left out"
            now[partition] = (epoch, offset + 1)
            self.got.append((member, record))
        self.owned[member] = now

    @rule(which=st.integers(0, 50), by=joined)
    def ack(self, which: int, by: str) -> None:
        if not self.got:
            return
        member, record = self.got[which % len(self.got)]
        body = {"acks": [record["receipt"]], "commit_through": True}
        status, said = self.call("POST", f"/v1/groups/g/members/{by}/acks", body)
        partition = record["partition"]
        epoch = int(record["receipt"].rsplit(".", 2)[1])
        if status == 409:
            (refused,) = said["refused"]
            assert refused["epoch"] == epoch
            # Also one that its new owner has not told us of yet.
            assert refused["current_epoch"] >= epoch
            return
        assert status == 200, said
        assert by == member, "nobody commits what another was given"
        assert self.owned[member][partition][0] == epoch, "a superseded epoch commits nothing"
        position = said["committed"][0]["offset"]
        assert position == max(self.committed[partition], record["offset"] + 1)
        self.committed[partition] = position

    @rule()
    def describe(self) -> None:
        status, said = self.call("GET", "/v1/groups/g")
        if status == 404:
            return
        for row in said["partitions"]:
            assert (row["committed_offset"] or 0) == self.committed[row["partition"]]
            assert row["end_offset"] == self.ends[row["partition"]]
            assert row["lag"] == row["end_offset"] - self.committed[row["partition"]]

    def teardown(self) -> None:
        """One that is alone reads on to the end of each partition."""
        for member in list(self.owned):
            self.leave(member)
        member = self._join()
        for _ in range(sum(self.ends) + PARTITIONS):
            self.poll(member, 50)
        assert [self.owned[member][p][1] for p in range(PARTITIONS)] == self.ends


TestReaders = Readers.TestCase
TestReaders.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
