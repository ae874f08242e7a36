"""What a callback of the application may raise without ending the work of a client."""

from __future__ import annotations

FAULTS = (Exception, SystemExit)
"""`sys.exit` in a thread of a client would end that thread alone, and in silence what it sends."""
