"""The clients in `.venv/clients`, as processes. `make sqs-clients` installs them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[3]
CLIENTS = PROJECT / ".venv" / "clients"
ROUNDS = Path(__file__).parent / "clients"
_LONGEST_S = 90.0


def program(name: str) -> str:
    """`python`, `node`, `aws` or `celery`."""
    path = CLIENTS / "bin" / name
    if not path.exists():
        raise RuntimeError(f"{path} is not there: run `make sqs-clients`")
    return str(path)


def environment(url: str) -> dict[str, str]:
    """What tells a client where the gateway is, and nothing of this machine's own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | {
        "HOME": "/nonexistent",
        "CLIENTS": str(CLIENTS),
        "AWS_ENDPOINT_URL_SQS": url,
        "AWS_ACCESS_KEY_ID": "anything",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "*",
    }


def told(url: str, name: str, *arguments: str) -> Any:
    """What a client prints, as JSON; None if that is nothing. Raises if it fails."""
    done = subprocess.run(
        [program(name), *arguments],
        env=environment(url),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )
    if done.returncode:
        raise ClientFailed(done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


class ClientFailed(Exception):
    """A client has ended with an error; its message is what it has written."""
