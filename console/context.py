"""What all pages share, and who looks at the page that is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from flask import g

from console.asking.issuer import Issuer
from console.asking.patience import PATIENCE_S, Patience
from console.asking.processes import Processes
from console.asking.tables import Tables
from console.rules.found import Found
from console.rules.masks import Masks
from console.sessions import Session, Sessions


@dataclass
class Context:
    """One console."""

    sessions: Sessions
    tables: Tables
    masks: Masks
    read_only: bool
    patience: Patience
    issuer: Issuer | None = None
    """Where people may sign in, beside with a key."""
    locked: bool = field(default=False)
    """The services ask for keys. It stays so while none of them answers."""

    def look_around(self, within_s: float = PATIENCE_S) -> Found[Processes]:
        """Look at all processes without a key, and note whether one is needed."""
        found = self.sessions.everybody.desk.look(within_s)
        seen = found.value
        if seen is not None and (seen.locked or seen.may_read):
            self.locked = seen.locked
        return found

    def close(self) -> None:
        """Close the connections."""
        self.sessions.everybody.desk.close()


def session() -> Session:
    """Who looks."""
    return cast("Session", g.session)
