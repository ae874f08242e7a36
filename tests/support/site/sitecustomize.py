"""Python runs this at its start if the folder is on PYTHONPATH: see `tests/support/patching.py`."""

from tests.support.patching import install

install()
