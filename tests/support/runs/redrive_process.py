"""`lakequeue dlq redrive TOPIC`, as a process that can be killed at a step.

python -m tests.support.runs.redrive_process --crash-at STEP TOPIC --url URL --consumer-url URL …
"""

from __future__ import annotations

import sys

from lakequeue.steps import arm
from lakequeue_cli.app import main

if __name__ == "__main__":
    arm(sys.argv[2])
    sys.argv[1:] = ["dlq", "redrive", *sys.argv[3:]]
    main()
