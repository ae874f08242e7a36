"""Keys as the command line hands them over: shown once, or in a file that nobody else can read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lakequeue.errors import InvalidRequest, LakequeueError
from lakequeue_cli.output import note


@contextlib.contextmanager
def handing_over(text: str, key_file: Path | None) -> Iterator[None]:
    """Show a key once it counts, or have it in a file that nobody else can read.

    The file is written first: a key that counts and that nobody has cannot be got back.
    """
    if key_file is None:
        yield
        print(text)
        note("this is shown once; put it into a file and name that by LAKEQUEUE_API_KEY_FILE")
        return
    try:
        descriptor = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidRequest(
            f"the key cannot be written into {key_file}: {error.strerror}",
            hint="name a file that does not exist yet; nothing was changed",
        ) from error
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    try:
        yield
    except LakequeueError as error:
        if error.stored != "unknown":
            key_file.unlink(missing_ok=True)
        raise
    note(f"the key is in {key_file}; name it by LAKEQUEUE_API_KEY_FILE")
