"""What a node says of its memory."""

from __future__ import annotations

import json
import os
import platform

from consumer_service.memory import MAPPED_BYTES, is_tuned
from tests.support.services.consumer_node import NodeProcess


def test_a_node_has_set_its_allocators(node: NodeProcess) -> None:
    lines = [json.loads(line) for line in node.trace.read_text().splitlines() if line[:1] == "{"]
    (said,) = [line for line in lines if line.get("event") == "memory.configured"]
    ours = platform.libc_ver()[0] == "glibc" and not is_tuned(os.environ)
    assert said["arrow"] == os.environ.get("ARROW_DEFAULT_MEMORY_POOL", "system")
    assert said["mapped_from"] == (MAPPED_BYTES if ours else None)
