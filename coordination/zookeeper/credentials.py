"""How a process shows itself to ZooKeeper, and whether the way there is encrypted.

With a password, every node is made for whoever shows the same one, and for nobody else. The
password is shown in the `digest` scheme as soon as a connection stands, before any request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kazoo.security import ACL, make_digest_acl

from lakequeue.errors import InvalidSetting
from lakequeue.settings import CoordinationSettings

SCHEME = "digest"


def password_of(settings: CoordinationSettings) -> str | None:
    """The password that is shown; None: none is. Raises `InvalidSetting`."""
    if settings.password_file is not None:
        return read_password(settings.password_file)
    given = settings.password
    return None if given is None else given.get_secret_value()


def read_password(path: Path) -> str:
    """What stands in a file of a password. Raises `InvalidSetting`."""
    try:
        found = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"the file {path} cannot be read: {error}",
            hint="coordination.password_file has to name a file with the password for ZooKeeper",
        ) from None
    if not found:
        raise InvalidSetting(
            f"the file {path} is empty", hint="put the password for ZooKeeper into it"
        )
    return found


def shown_as(user: str, password: str) -> tuple[str, str]:
    """Scheme and credential, as the client library takes them."""
    return SCHEME, f"{user}:{password}"


def only_for(user: str, password: str) -> list[ACL]:
    """The ACL of a node for whoever shows this.

    Not `CREATOR_ALL`, which lets in all that the connection that made a node has shown: the name
    in a certificate, an old password.
    """
    return [make_digest_acl(user, password, all=True)]


def client_options(settings: CoordinationSettings) -> dict[str, Any]:
    """Arguments of the client library. Raises `InvalidSetting`."""
    return _shown(settings) | _encrypted(settings)


def _shown(settings: CoordinationSettings) -> dict[str, Any]:
    password = password_of(settings)
    if password is None:
        return {}
    return {
        "auth_data": [shown_as(settings.user, password)],
        "default_acl": only_for(settings.user, password),
    }


def _encrypted(settings: CoordinationSettings) -> dict[str, Any]:
    if not settings.tls:
        if settings.ca or settings.cert or settings.key:
            raise InvalidSetting(
                "coordination.ca, cert or key without coordination.tls",
                hint="set coordination.tls = true, or leave them out",
            )
        return {}
    named = {"ca": settings.ca, "certfile": settings.cert, "keyfile": settings.key or settings.cert}
    missing = next((path for path in named.values() if path and not path.is_file()), None)
    if missing is not None:
        raise InvalidSetting(
            f"the file {missing} for TLS to ZooKeeper does not exist",
            hint="see coordination.ca, coordination.cert and coordination.key; all in PEM form",
        )
    files = {name: str(path) for name, path in named.items() if path is not None}
    return {"use_ssl": True, "verify_certs": True, "check_hostname": True, **files}
