"""Where the console of `lakequeue up` listens."""

from __future__ import annotations

import socket

from lakequeue_cli.supervisor.preflight import console_place

HERE = "127.0.0.1"


def test_a_port_in_use_is_replaced_unless_somebody_chose_it() -> None:
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        assert console_place(HERE, port, set(), may_change=True)[1] not in {0, port}
        assert console_place(HERE, port, set(), may_change=False) == (HERE, port)


def test_it_takes_no_port_of_another_child() -> None:
    assert console_place(HERE, 8080, {8080}, may_change=True)[1] not in {0, 8080}
    assert console_place(HERE, 0, set(), may_change=False)[1] > 0
