"""What a node says of its memory."""

from __future__ import annotations

import json
import os
import platform

import pytest

from tests.support.services.consumer_node import NodeProcess


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc"
    or any(name.startswith(("MALLOC_", "GLIBC_TUN", "ARROW_DEFAULT")) for name in os.environ),
    reason="sets glibc's malloc, unless it is set",
)
def test_a_node_has_set_its_allocators(node: NodeProcess) -> None:
    lines = [json.loads(line) for line in node.trace.read_text().splitlines() if line[:1] == "{"]
    (said,) = [line for line in lines if line.get("event") == "memory.configured"]
    assert (said["arrow"], said["mapped_from"]) == ("system", 1 << 20)
