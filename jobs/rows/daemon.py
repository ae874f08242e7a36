"""Spark's Python daemon, with what the workers need imported before they are forked.

Spark ends idle workers after a minute; the next batch would then pay half a second for imports.
"""

from __future__ import annotations

from pyspark.daemon import manager

import jobs.rows.key_projection  # noqa: F401 -- for the forks

if __name__ == "__main__":
    manager()
