"""Secrets that have to be read again, as they lie where others may look: sealed. Pure, but for the
randomness of keys and of each sealing.

A sealed text is a JWE (RFC 7516, `dir` with A256GCM): whoever has not the key can neither read nor
change it. What it is about is sealed with it, so that it cannot be moved to something else.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from lakequeue.errors import CorruptTable

PREFIX: Final = "sealed:"
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class SealingKey:
    """256 random bits."""

    text: str = field(repr=False)
    """As it is kept: base64."""

    def seal(self, secret: str, about: Mapping[str, str]) -> str:
        """The secret as it may lie."""
        plain = orjson.dumps({"secret": secret, "about": about}, option=orjson.OPT_SORT_KEYS)
        return PREFIX + jwe.encrypt_compact(dict(_HEADER), plain, self._key)

    def open(self, sealed: str, about: Mapping[str, str]) -> str:
        """What was sealed, if it was about the same. Raises `CorruptTable`."""
        try:
            text = sealed.removeprefix(PREFIX)
            found = jwe.decrypt_compact(text, self._key, algorithms=["dir", "A256GCM"])
            said = orjson.loads(found.plaintext or b"")
        except (JoseError, ValueError):
            said = {}
        if said.get("about") != dict(about):
            raise CorruptTable(
                f"the secret of {', '.join(map(str, about.values()))} cannot be opened: it was not "
                "sealed with this queue's key, or for something else",
                hint="give it a new one: lakequeue webhook set",
            )
        return str(said["secret"])

    @property
    def _key(self) -> OctKey:
        return OctKey.import_key(base64.urlsafe_b64decode(self.text))


def new_sealing_key() -> SealingKey:
    """A key of its own for one queue."""
    return SealingKey(base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode())


def is_sealed(text: str) -> bool:
    """Whether it has the form of a sealed secret."""
    return text.startswith(PREFIX)
