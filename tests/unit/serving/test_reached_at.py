"""By which URL others reach a node."""

from __future__ import annotations

import socket

from serving.process import reached_at


def test_a_node_on_one_address_is_reached_there() -> None:
    assert reached_at("10.0.0.7", 8080) == "http://10.0.0.7:8080"
    assert reached_at("fd00::7", 8080) == "http://[fd00::7]:8080"


def test_a_node_on_every_address_is_reached_by_the_name_of_its_machine() -> None:
    assert reached_at("0.0.0.0", 8081) == f"http://{socket.gethostname()}:8081"
    assert reached_at("::", 8081) == f"http://{socket.gethostname()}:8081"
