"""Which packages a command needs, and which extra brings them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires

from lakequeue.errors import MissingDependency
from lakequeue.extras import pip_install

NODE = ("deltalake", "flask", "httptools", "kazoo", "obstore", "pyarrow")
"""What a service or a job without Spark runs on, of the extra `server`."""
SERVER = (*NODE, "pandas", "pyspark")
"""What runs the queue itself, of the extras `server` and `spark`."""


def need_server() -> None:
    """Raise `MissingDependency` unless everything is there that the queue itself runs on."""
    need(SERVER, f"{pip_install('all')}, or make setup")


def need(packages: Iterable[str], hint: str | None = None) -> None:
    """Raise `MissingDependency` unless these are there: another process would end in a traceback.

    Without a `hint` it names the smallest extras that bring them.
    """
    names = [*packages]
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        extras = "server,spark" if "pyspark" in names else "server"
        raise MissingDependency(
            f"not installed: {', '.join(missing)}",
            hint=hint or pip_install(extras),
        )


def missing_package(module: str, arguments: list[str]) -> MissingDependency | None:
    """The error for a module that could not be imported; None: no extra brings it."""
    package = module.partition(".")[0].replace("_", "-")
    try:
        extra = extra_with(package, requires("lakequeue") or [])
    except PackageNotFoundError:
        return None  # run from a folder, without an installation
    if extra is None:
        return None
    said = f"lakequeue {arguments[0]}" if arguments else "lakequeue"
    # Whoever needs more than the command line runs a queue here, and needs all the rest, too.
    wanted = "cli" if extra == "cli" else "all"
    return MissingDependency(
        f"`{said}` needs the package {package}, which is not installed",
        hint=pip_install(wanted),
    )


def extra_with(package: str, required: Iterable[str]) -> str | None:
    """The smallest extra of a distribution that brings a package. Pure."""
    size: dict[str, int] = {}
    bring: set[str] = set()
    for line in required:
        found = re.match(r"([A-Za-z0-9._-]+)[^;]*;.*extra == ['\"]([\w-]+)['\"]", line)
        if found is not None:
            size[found[2]] = size.get(found[2], 0) + 1
            if re.sub(r"[-_.]+", "-", found[1]).lower() == package.lower():
                bring.add(found[2])
    return min(bring, key=lambda extra: (size[extra], extra), default=None)
