"""The release before this one, and a root that it has made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakequeue import Producer
from lakequeue.client.admin import Admin
from tests.support.upgrading.previous import PreviousRelease

SENT = [f"old-{n}" for n in range(10)]


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> PreviousRelease:
    """Its wheel, installed."""
    return PreviousRelease(tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="session")
def made_before(previous: PreviousRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of that release: a topic, and records that are not ordered yet."""
    root = tmp_path_factory.mktemp("made") / "root"
    with previous.ingest(root) as url:
        with Admin(url) as admin:
            admin.create_topic("orders", partitions=2)
        with Producer(url) as producer:
            for value in SENT:
                producer.send("orders", value, key=value)
    return root


@pytest.fixture
def old_root(made_before: Path, tmp_path: Path) -> Path:
    """A copy of it for each test."""
    return Path(shutil.copytree(made_before, tmp_path / "root"))
