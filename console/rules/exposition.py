"""Reads Prometheus' text format, as far as the console needs it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Labels = tuple[tuple[str, str], ...]
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Scrape:
    """The wanted samples of one process."""

    def __init__(self, samples: Mapping[str, Mapping[Labels, float]]) -> None:
        self._samples = samples

    def all(self, name: str) -> Mapping[Labels, float]:
        """Every sample of a metric, by its labels."""
        return self._samples.get(name, {})

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of the samples that have these labels; None: there is none."""
        wanted = labels.items()
        found = [v for own, v in self.all(name).items() if wanted <= dict(own).items()]
        return sum(found) if found else None


def read(text: str, wanted: Iterable[str]) -> Scrape:
    """The samples of these metrics; lines that cannot be read are left out."""
    names = frozenset(wanted)
    found: dict[str, dict[Labels, float]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name = line[: min(_before(line, "{"), _before(line, " "))]
        if name not in names:
            continue
        labels, _, value = line[len(name) :].rpartition(" ")
        try:
            number = float(value)
        except ValueError:
            continue
        pairs = tuple((key, _plain(text)) for key, text in _LABEL.findall(labels))
        found.setdefault(name, {})[pairs] = number
    return Scrape(found)


def _before(line: str, mark: str) -> int:
    at = line.find(mark)
    return len(line) if at < 0 else at


def _plain(text: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda found: _ESCAPES[found[0]], text) if "\\" in text else text
