"""Spark's checkpoint of a query, as a crash at a certain moment leaves it."""

from __future__ import annotations

from pathlib import Path


def forget_the_last_batch(checkpoint: Path) -> None:
    """As if Spark had died after the batch was in the sink, and before it noted that."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.glob(f"*{last}*"):
        path.unlink()
