"""The `lakequeue` command: what it consists of, and how its errors end.

Exit codes: 0 done; 1 it failed, and a person has to look; 2 wrong usage; 3 to 7 as in
`lakequeue up`; 8 refused: the request is wrong and stays wrong; 9 not available: try again later;
10 somebody else took over; 130 Ctrl-C; 141 nobody reads the output any more.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from typing import Annotated

import typer

from lakequeue import __version__
from lakequeue.calling.credentials import Credentials, use
from lakequeue.errors import InvalidSetting, LakequeueError
from lakequeue.processes.logs import log_to_stderr
from lakequeue.processes.programs import packages_first
from lakequeue.settings import Settings
from lakequeue_cli.commands import (
    auth,
    config,
    consume,
    dlq,
    doctor,
    erase,
    group,
    job,
    produce,
    rejects,
    repair,
    run,
    topic,
    up,
    webhook,
)
from lakequeue_cli.help_texts import unwrap
from lakequeue_cli.output import harmless
from lakequeue_cli.roots.backup import backup, restore
from lakequeue_cli.roots.upgrade import upgrade
from lakequeue_cli.support.command import support_dump

app = typer.Typer(
    name="lakequeue",
    help="A message queue whose storage is open Delta Lake tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3-7 see `up`, 8 refused, 9 try again, "
    "10 taken over.",
)
app.command()(up.up)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(run.run)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    run.console
)
app.add_typer(topic.app, name="topic")
app.command()(produce.produce)
app.command()(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(dlq.app, name="dlq")
app.add_typer(rejects.app, name="rejects")
app.add_typer(webhook.app, name="webhook")
app.command()(erase.erase)
app.command()(doctor.doctor)
app.command()(repair.repair)
app.command()(upgrade)
app.command()(backup)
app.command()(restore)
app.command()(support_dump)
app.add_typer(auth.app, name="auth")
app.add_typer(config.app, name="config")
app.add_typer(job.app, name="job")
unwrap(app)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"lakequeue {__version__}")
        raise typer.Exit


@app.callback()
def _of_all(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version."),
    ] = False,
) -> None:
    """A message queue whose storage is open Delta Lake tables."""


def _use_credentials() -> None:
    """Of the settings file as well as of the environment; never of the command line."""
    try:
        settings = Settings()
    except InvalidSetting:
        return  # the command says so, if it needs them
    if not any((settings.api_key, settings.api_key_file, settings.ca, settings.cert)):
        return
    secret = settings.api_key
    files = {"ca": settings.ca, "cert": settings.cert, "key": settings.key}
    use(
        Credentials(
            None if secret is None else secret.get_secret_value(),
            settings.api_key_file,
            **{name: str(path) for name, path in files.items() if path is not None},
        )
    )


def main() -> None:
    """Run the command; every error is one or two lines, never a traceback."""
    packages_first()
    # Standard output is for what was asked: a script reads it.
    log_to_stderr("warning")
    logging.basicConfig(format="%(levelname)s: %(message)s")  # what the SDK warns of
    try:
        _use_credentials()
        _run()
    except LakequeueError as error:
        print(f"error: {harmless(error.detail)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {harmless(error.hint)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as failed:
        if failed.filename is not None or failed.errno not in _OUTPUT_ENDED:
            raise
        # What is left in the buffer would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if failed.errno == errno.EPIPE:
            # Whoever read our output has had enough (`| head`).
            sys.exit(128 + signal.SIGPIPE)
        print(f"error: the output cannot be written: {failed.strerror}", file=sys.stderr)
        print("hint: make room, or write it elsewhere, then run the command again", file=sys.stderr)
        sys.exit(1)


_OUTPUT_ENDED = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _run() -> None:
    """Run the command, and write all of its output. Raises `OSError` if that fails."""
    try:
        app()
    except SystemExit as end:
        # Typer makes exit code 1 of a pipe that nobody reads any more.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        sys.stdout.flush()
        raise


if __name__ == "__main__":
    main()
