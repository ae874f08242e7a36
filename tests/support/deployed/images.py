"""The images that `deploy/Dockerfile` makes, as its text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import yaml

REPOSITORY: Final = Path(__file__).parents[3]
DOCKERFILE: Final = (REPOSITORY / "deploy" / "Dockerfile").read_text()
ROLES: Final = {"ingest": 8080, "consumer": 8081, "driver": 8082}
"""Roles of a cluster, and where each listens."""


def stage(name: str) -> str:
    """The instructions of one stage of the Dockerfile."""
    found = re.search(rf"^FROM \S+ AS {name}$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S)
    assert found is not None, f"no stage {name}"
    return found[1]


def instruction(name: str, of: str) -> list[str]:
    """The exec form of ENTRYPOINT or CMD."""
    found = re.search(rf"^{name} (\[.*\])$", of, re.M)
    assert found is not None
    words: list[str] = yaml.safe_load(found[1])
    return words
