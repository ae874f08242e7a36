"""Who a client is, and whom it trusts: given by the program, else by the environment.

`LAKEQUEUE_API_KEY` is a key or token, `LAKEQUEUE_API_KEY_FILE` a file that has one: a file is read
again when it has changed, so a key can be exchanged under a program that runs. `LAKEQUEUE_CA` is
a file of certificates to trust, `LAKEQUEUE_CERT` and `LAKEQUEUE_KEY` a client certificate.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from lakequeue.calling.effects import Unanswered
from lakequeue.errors import InvalidSetting, LakequeueError

_LOOK_EVERY_S = 1.0
_NAMES = {
    "api_key": "LAKEQUEUE_API_KEY",
    "api_key_file": "LAKEQUEUE_API_KEY_FILE",
    "ca": "LAKEQUEUE_CA",
    "cert": "LAKEQUEUE_CERT",
    "key": "LAKEQUEUE_KEY",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """An API key or token, and files for TLS. Shows no secret when it is printed."""

    api_key: str | Callable[[], str | None] | None = field(default=None, repr=False)
    """The key or token, or what returns the newest one."""
    api_key_file: str | os.PathLike[str] | None = None
    """A file that has it, in place of `api_key`; the newest content counts."""
    ca: str | None = None
    """File of the certificates to trust, in place of those of the system's authorities."""
    cert: str | None = None
    """File of a client certificate."""
    key: str | None = field(default=None, repr=False)
    """File of its private key, if it is not in the same file."""

    @property
    def has_secret(self) -> bool:
        """Whether there may be a key or token."""
        return self.api_key is not None or self.api_key_file is not None

    @property
    def secret(self) -> str | None:
        """The key or token as it is now. Raises `InvalidSetting` for a file that cannot be read,
        and for what can be no key or token.
        """
        if self.api_key_file is not None:
            try:
                return _checked(Path(self.api_key_file).read_text(), "LAKEQUEUE_API_KEY_FILE")
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no text"
                raise InvalidSetting(
                    f"the file {os.fspath(self.api_key_file)} cannot be read: {why}",
                    hint="LAKEQUEUE_API_KEY_FILE has to name a file with an API key",
                ) from None
        given = self.api_key() if callable(self.api_key) else self.api_key
        return None if given is None else _checked(given, "LAKEQUEUE_API_KEY")

    def trust(self) -> ssl.SSLContext:
        """Whom connections to https trust, and who they are.

        Returns:
            A context for TLS 1.2 and later.

        Raises:
            InvalidSetting: A file cannot be read, or is of another kind.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise InvalidSetting(
                f"the files for TLS cannot be used: {error}",
                hint="see LAKEQUEUE_CA, LAKEQUEUE_CERT and LAKEQUEUE_KEY",
            ) from error
        return context


def _checked(secret: str, place: str) -> str | None:
    """The secret without white space around it; None: there is none. Raises `InvalidSetting`.

    What cannot stand in a header is refused here: HTTP libraries show it in their errors.
    """
    found = secret.strip()
    if any(not "!" <= character <= "~" for character in found):
        raise InvalidSetting(
            "the API key or token has a character that none has: a space, a line break, or one "
            "that is not ASCII",
            hint=f"{place} has to be one key or token and nothing else",
        )
    return found or None


_usual: list[Credentials] = []
"""Of this process, for clients that are given none."""


def use(credentials: Credentials | None) -> None:
    """Let clients that are made from now on, and are given none, take these."""
    _usual[:] = [] if credentials is None else [credentials]


def credentials_of(given: Credentials | str | None = None) -> Credentials:
    """What a client goes by. A text is a key or token."""
    if isinstance(given, str):
        return Credentials(api_key=given)
    if given is not None:
        return given
    if _usual:
        return _usual[0]
    return Credentials(**{name: os.environ.get(variable) for name, variable in _NAMES.items()})


class Bearer(httpx2.Auth):
    """Puts the secret into each request; a file that has changed is read again."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._secret: str | None = None
        self._looked_at = float("-inf")

    def _newest(self, *, now: bool = False) -> str | None:
        at = time.monotonic()
        if now or at - self._looked_at > _LOOK_EVERY_S:
            try:
                self._secret = self._credentials.secret
            except Exception as error:
                # A file that is just being exchanged, a server of tokens that is away for a moment:
                # what was good a second ago mostly still is.
                if self._secret is None:
                    if isinstance(error, LakequeueError):
                        raise
                    what = f"the API key is not told: {type(error).__name__}: {error}"
                    raise Unanswered(what, sent=False) from error
            self._looked_at = at
        return self._secret

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """See httpx2. A refused secret is tried again if there is a newer one."""
        secret = self._newest()
        if secret is None:
            yield request
            return
        request.headers["authorization"] = f"Bearer {secret}"
        response = yield request
        if response.status_code == 401 and (newer := self._newest(now=True)) != secret:
            request.headers["authorization"] = f"Bearer {newer}"
            yield request
