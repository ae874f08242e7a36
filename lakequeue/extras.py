"""Names the extra that brings a package which is not installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit


def pip_install(extra: str) -> str:
    """The command that adds an extra, from where lakequeue itself was installed."""
    # Loaded here: every client imports this module, and hardly any lacks an extra.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        told = distribution("lakequeue").read_text("direct_url.json")
    except PackageNotFoundError:
        told = None  # run from a folder, without an installation
    return command_for(extra, json.loads(told) if told else {})


def command_for(extra: str, origin: dict[str, Any]) -> str:
    """The same, given what the installer noted of the origin (PEP 610): nothing if it was an index.

    Pure.
    """
    url = origin.get("url")
    if not url:
        return f"pip install 'lakequeue[{extra}]'"
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{unquote(urlsplit(url).path)}[{extra}]'"
    return f"pip install 'lakequeue[{extra}] @ {url}'"


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """While it lasts, a module that is not there is one that this extra of lakequeue brings.

    The error stays a `ModuleNotFoundError`: programs and `pytest.importorskip` look for that.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"{missing.msg}; {pip_install(extra)}", name=missing.name, path=missing.path
        ) from missing
