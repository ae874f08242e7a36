"""One tree of errors, the same classes on both sides of the wire.

Four branches tell what to do: `Rejected` fix the request, `Fenced` stop and rejoin, `TryAgain`
wait and retry, `Broken` page someone. Each class carries its `code`, `http_status`, `retryable` and
`exit_code` as data, and docs/errors.md is made from that. An instance adds `detail` (with the
numbers), `hint` (the remedy), and for produce and ack `stored` ("no", "unknown", or "yes" when only
waiting for it to be ordered failed). Rendered as RFC 9457 problem+json.
"""

from lakequeue.errors.base import LakequeueError as LakequeueError
from lakequeue.errors.base import Stored as Stored
from lakequeue.errors.base import every as every
from lakequeue.errors.broken import *
from lakequeue.errors.fenced import *
from lakequeue.errors.rejected import *
from lakequeue.errors.try_again import *
