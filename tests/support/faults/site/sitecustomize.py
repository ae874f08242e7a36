"""Python runs this at its start if the folder is on PYTHONPATH: see
`tests/support/faults/patching.py`.
"""

from tests.support.faults.patching import install

install()
