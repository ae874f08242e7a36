"""Run tests; of a few that failed say whether they fail again, alone in a fresh process.

    python -m tools.run_services [what pytest takes]

Tests with real services race real clocks: a machine that stops for seconds at the wrong instant
fails a test of a program without fault. Whoever only starts again whatever is red gets used to red;
so this starts again at once, says which tests were unstable, last, and is green only if each of
them has passed then. More than `MOST` failures are no coincidence, and end it.
Decision record 0014 has the reasons.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 5
_TESTS_FAILED = 1
"""pytest's exit code; all others are about the run itself."""


def main(arguments: list[str]) -> int:
    """The exit code of pytest; 0 also if what had failed has passed the second time."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["-o", f"cache_dir={folder}", *arguments]
        code = _pytest(arguments)
        failed = _failed(Path(folder))
        if code != _TESTS_FAILED or not 0 < len(failed) <= MOST:
            return code
        print(f"\nonce more, in a fresh process: {len(failed)} that failed", flush=True)
        code = _pytest(["--last-failed", "--last-failed-no-failures=none", *arguments])
    if code == 0:
        print("\nUNSTABLE, failed and then passed; each is a fault of its test or of the program:")
        print("\n".join(f"  {test}" for test in failed), flush=True)
    return code


def _pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _failed(cache: Path) -> list[str]:
    """Ids of the tests that failed, or whose fixtures did."""
    found = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(found.read_text())) if found.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
