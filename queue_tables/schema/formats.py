"""The format of a root: a number and a list of features, and what a release makes of them. Pure.

Both stand in `_lakequeue/format.json`. The number says how that file and the tables are to be read
at all. Each feature is something that a release without it would break, or would not keep to. A
column that old releases may pass over needs neither (docs/decisions/0062).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakequeue.errors import LakequeueError, NewerFormat, OlderFormat

NUMBER: Final = 2
"""What new roots have, and what an upgrade raises older ones to."""
OLDEST: Final = 1
"""The oldest that this release reads and writes: that of 0.1.0."""
LISTED_FROM: Final = 2
"""From this number on, tables may have further columns, and features are listed."""
RELEASE: Final = "0.2.0"
"""The first release that reads and writes `NUMBER`: told to releases that do not."""
LAST_THAT_RAISES: Final = "0.2.0"
"""The last release that reads what is older than `OLDEST` and can raise it."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What a release has to know to use a root that has it."""

    name: str
    release: str
    """The first that knows it."""
    doc: str


GROUP_SETTINGS: Final = Feature(
    "group_settings",
    "0.2.0",
    "What people said about groups is in a table: a release that changes it in ZooKeeper alone"
    " would have its changes undone.",
)
VALUE_SCHEMAS: Final = Feature(
    "value_schemas",
    "0.2.0",
    "Topics may have schemas in Avro, and policies for values: a release without it would take them"
    " for JSON Schema, and drop what is said of them.",
)
FEATURES: Final[tuple[Feature, ...]] = (GROUP_SETTINGS, VALUE_SCHEMAS)
"""Those that this release knows, and gives to new roots."""


KNOWN: Final = tuple(feature.name for feature in FEATURES)


@dataclass(frozen=True, slots=True)
class RootFormat:
    """What a root says of itself."""

    number: int
    features: Mapping[str, str] = field(default_factory=dict)
    """Name → the first release that knows it."""
    release: str | None = None
    """The first release that reads the number, if the root says so."""

    @property
    def has_later_columns(self) -> bool:
        """Whether tables may have columns that 0.1.0 does not know: it goes by exact equality."""
        return self.number >= LISTED_FROM

    def document(self) -> dict[str, Any]:
        """As it stands in the file."""
        said: dict[str, Any] = {"format": self.number}
        if self.number >= LISTED_FROM:
            said |= {"features": dict(sorted(self.features.items())), "release": self.release}
        return said


NEWEST: Final = RootFormat(NUMBER, {one.name: one.release for one in FEATURES}, RELEASE)
"""What this release gives to a new root."""


def format_in(document: Mapping[str, Any]) -> RootFormat:
    """Read it. Raises `KeyError`, `TypeError` or `ValueError` if it is none."""
    features = document.get("features") or {}
    if not isinstance(features, dict):
        raise TypeError("features are no object")
    release = document.get("release")
    return RootFormat(
        int(document["format"]),
        {str(name): str(since) for name, since in features.items()},
        None if release is None else str(release),
    )


def refusal_of(
    uri: str,
    found: RootFormat,
    *,
    newest: int = NUMBER,
    oldest: int = OLDEST,
    known: Iterable[str] = KNOWN,
) -> LakequeueError | None:
    """Why a release that reads `oldest` to `newest`, and `known` features, cannot use the root."""
    if found.number > newest:
        return NewerFormat(
            f"{uri} is of format {found.number}, this release knows up to {newest}",
            hint=_install(found.release),
        )
    if found.number < oldest:
        return OlderFormat(
            f"{uri} is of format {found.number}, this release reads from {oldest} on",
            hint=f"install lakequeue {LAST_THAT_RAISES}, say `lakequeue upgrade --apply --root"
            f" {uri}` there, and then use this release",
        )
    unknown = sorted(found.features.keys() - set(known))
    if unknown:
        # Who knows the newest of them knows all.
        release = max((found.features[name] for name in unknown), key=_order)
        named = ", ".join(unknown)
        return NewerFormat(
            f"{uri} has the feature{'s' if len(unknown) > 1 else ''} {named}, which this release"
            " does not know",
            hint=_install(release),
        )
    return None


def _install(release: str | None) -> str:
    return f"install lakequeue {release} or later here" if release else "upgrade lakequeue"


def _order(release: str) -> tuple[tuple[int, str], ...]:
    """Releases in their order: `0.10.0` is after `0.9.1`."""
    return tuple((int(part) if part.isdigit() else -1, part) for part in release.split("."))


def raised(found: RootFormat, newest: RootFormat = NEWEST) -> RootFormat:
    """What an upgrade makes of it: nothing that it has is taken away."""
    if found.number > newest.number:
        return found
    return RootFormat(
        max(found.number, newest.number), {**newest.features, **found.features}, newest.release
    )


def advice_of(uri: str, found: RootFormat, newest: RootFormat = NEWEST) -> str | None:
    """What whoever starts on the root is told; None if it is of the newest format."""
    if raised(found, newest) == found:
        return None
    return (
        f"{uri} is of format {found.number}, and works as it is; this release can raise it to"
        f" {newest.number}: `lakequeue upgrade --check --root {uri}` says what that changes"
    )
