"""Which queue is meant if the option `root` is not given."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_lakequeue.source.options import ROOT_OPTIONS


def with_root(given: Mapping[str, str]) -> Mapping[str, str]:
    """The options; a root that is not among them is found as the SDK finds the services.

    That is `LAKEQUEUE_ROOT`, `root` in the settings file, or the folder `lakequeue-data`. Executors
    need not have these: the root is an absolute path from here on. Raises `InvalidSetting`.
    """
    if any(name.lower() in ROOT_OPTIONS for name in given):
        return given
    # Takes 0.2 s to import, and mostly the root is given.
    from lakequeue.calling.addresses import queue_root

    found = queue_root()
    return given if found is None else {**given, "root": found}
