"""Where the console of `lakequeue up` listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lakequeue_cli.supervisor.child import Child
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
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


@pytest.mark.parametrize("may_change", [True, False])
def test_one_whose_port_somebody_took_at_the_start_moves_unless_somebody_chose_it(
    tmp_path: Path, may_change: bool
) -> None:
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        options = ClusterOptions(
            str(tmp_path), console=(HERE, 0), console_port_may_change=may_change
        )
        cluster = Cluster(options)
        children = {spec.name: Child(spec, tmp_path, {}) for spec in cluster.layout.children()}
        at = cluster.layout.console
        moved = cluster._elsewhere(children["console"])
        assert cluster._elsewhere(children["ingest-1"]) is None
        if not may_change:
            assert (moved, cluster.layout.console) == (None, at)
            return
        assert moved is not None
        assert moved.place is not None
        assert moved.place not in {at, (HERE, port)}
        assert f"--port {moved.place[1]}" in " ".join(moved.command)
        assert cluster.console_url == f"http://{HERE}:{moved.place[1]}"
