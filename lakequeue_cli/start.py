"""What the command `lakequeue` starts: it says which extra is missing, in place of a traceback.

The command line is installed with the client, whose packages alone this module needs to say so.
"""

from __future__ import annotations

import sys

from lakequeue import __version__
from lakequeue.processes.quick_start import importing
from lakequeue_cli.packages import missing_package


def main() -> None:
    """Run the command line; a module that is not installed is an error with a remedy."""
    if sys.argv[1:] == ["--version"]:
        print(f"lakequeue {__version__}")
        return
    try:
        with importing():
            from lakequeue_cli.app import main as run

        run()
    except ModuleNotFoundError as missing:
        error = missing_package(missing.name or "", sys.argv[1:])
        if error is None:
            raise
        print(f"error: {error.detail}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
