"""The hash that message ids are known by."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

U64 = npt.NDArray[np.uint64]
_KEYS = ("lakequeue-id-hi!", "lakequeue-id-lo!")


def hash_ids(ids: pa.Array | pa.ChunkedArray) -> tuple[U64, U64]:
    """Two independent 64-bit SipHashes of each id; a null has some hash, mask it out."""
    strings = ids.to_numpy(zero_copy_only=False)
    if ids.null_count:
        strings = np.where(pd.isna(strings), "", strings)
    if not len(strings):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    hi, lo = (
        np.asarray(pd.util.hash_array(strings, hash_key=key, categorize=False), np.uint64)
        for key in _KEYS
    )
    return hi, lo
