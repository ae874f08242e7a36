"""Whether anything was lost or came twice while clients held a node up."""

from __future__ import annotations

from collections import Counter

from deltalake import DeltaTable

from queue_tables.root import QueueRoot
from tests.support.runs.order_process import Orderer


class Ledger:
    """What was acknowledged, and what came back."""

    def __init__(self, root: QueueRoot) -> None:
        self._root = root
        self._epoch = 1
        self.sent: list[str] = []
        """Message ids of sends that were answered with 200."""
        self.wrong: list[str] = []
        """Records that were delivered out of turn, or again after their ack."""
        self._next: dict[int, int] = {}

    def delivered(self, partition: int, offset: int) -> None:
        """A poll brought this record; all before it were acknowledged."""
        expected = self._next.get(partition, 0)
        if offset != expected:
            self.wrong.append(f"partition {partition}: {offset} in place of {expected}")

    def acknowledged(self, partition: int, offset: int) -> None:
        """Its ack was answered with 200."""
        self._next[partition] = offset + 1

    def judged(self) -> dict[str, int]:
        """Counts, after a look at the log for what was sent; the lists begin anew."""
        acknowledged = sum(self._next.values())
        found = {"acknowledged": acknowledged, "out_of_turn": len(self.wrong)}
        if self.sent:
            stands = self._in_log()
            found = {
                "acknowledged": len(self.sent),
                "lost": sum(1 for one in self.sent if not stands[one]),
                "twice": sum(1 for one in self.sent if stands[one] > 1),
            }
        self.sent, self.wrong, self._next = [], [], {}
        return found

    def _in_log(self) -> Counter[str]:
        """How often each message id stands in the log, once everything in the inbox is ordered."""
        self._epoch += 1
        Orderer(self._root, self._epoch).drain()
        path = self._root.store.local_path
        rows = DeltaTable(f"{path}/log").to_pyarrow_table(columns=["message_id"])
        return Counter(str(one) for one in rows.column("message_id").to_pylist())
