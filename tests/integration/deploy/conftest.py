"""Fixtures of the tests of what is installed."""

from __future__ import annotations

import pytest

from tests.support.deployed.installed import Installed


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel alone, in an environment of its own."""
    return Installed(tmp_path_factory.mktemp("wheel"))
