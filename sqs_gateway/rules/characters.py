"""Which characters a message may hold: those of XML 1.0. Pure."""

from __future__ import annotations

import re
from typing import Final

_NOT_ALLOWED: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def allowed(text: str) -> bool:
    """Whether it has no other characters."""
    return _NOT_ALLOWED.search(text) is None
