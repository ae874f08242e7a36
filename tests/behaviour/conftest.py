"""The fixture `backend`: each behaviour is asked of the memory queue and of real services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.services.backends import Backend, in_memory, real


@pytest.fixture(scope="session")
def real_backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """Real services for the whole run; tests have topics and groups of their own."""
    zookeeper = request.getfixturevalue("zookeeper")
    with real(tmp_path_factory.mktemp("behaviour"), zookeeper) as backend:
        yield backend


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.zookeeper)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """One of the two."""
    if request.param == "real":
        yield request.getfixturevalue("real_backend")
        return
    with in_memory() as queue:
        yield queue
