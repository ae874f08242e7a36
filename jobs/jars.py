"""`python -m jobs.jars`: fetch the Delta jars ahead of time; see `lakequeue/processes/jars.py`."""

from __future__ import annotations

import sys

from lakequeue.processes.jars import main

if __name__ == "__main__":
    sys.exit(main())
