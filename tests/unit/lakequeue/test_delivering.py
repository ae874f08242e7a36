"""What a producer remembers while several topics are sent at once."""

from __future__ import annotations

import threading

from lakequeue.client.delivering import Delivering
from lakequeue.client.nodes import Nodes
from lakequeue.client.outbox import Limits


def test_the_stamp_that_is_carried_never_goes_back() -> None:
    nodes = Nodes("http://127.0.0.1:1")
    core = Delivering(nodes, "p", "committed", Limits(), 1.0, lambda: 0.0, lambda: None, None, None)
    core.saw(1)
    other = threading.Thread(target=core.saw, args=(9,))

    class Compared(int):
        """Another topic is answered at the moment at which this stamp is compared."""

        def __lt__(self, than: int) -> bool:
            if not other.ident:
                other.start()
                other.join(0.2)  # over at once, unless it has to wait for us
            return int(self) < than

        def __gt__(self, than: int) -> bool:
            return not self < than + 1

    core.saw(Compared(5))
    other.join()
    assert core.last_stamp == 9
