"""A front that serves a small application."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.services.fronts import Running, running
from tests.support.services.small_app import App


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def front(app: App) -> Iterator[Running]:
    with running(app.flask, app.ways()) as served:
        yield served
        app.held.set()
