"""What every process exports."""

from __future__ import annotations

from lakequeue.metrics.declaring import Kind, Metric, counter, gauge

READY = gauge("ready", "1: `/readyz` answers 200")
STORAGE_SECONDS = Metric(
    "lakequeue_storage_request_seconds",
    Kind.SUMMARY,
    "requests to the storage of the root, and the time they took, by operation: get, put (a data "
    "file), create (a commit), head, list, delete, sync; an answer such as *not found* is a "
    "request, too",
    ("operation",),
)
STORAGE_ERRORS = counter(
    "storage_errors_total",
    "requests to storage that failed, by operation and code of the error",
    "operation",
    "code",
)
STORAGE_RETRIES = counter(
    "storage_retries_total",
    "commits that were sent to storage again, because the first attempt failed and did not land",
)
STORAGE_READ = counter("storage_read_bytes_total", "bytes read from storage")
STORAGE_WRITTEN = counter("storage_written_bytes_total", "bytes written to storage")
ZOOKEEPER_CONNECTED = gauge("zookeeper_connected", "1: this process is connected to the ensemble")
ZOOKEEPER_LOST = counter("zookeeper_sessions_lost_total", "sessions that were lost")
CLOCK_SKEW = gauge(
    "clock_skew_seconds",
    "this machine's clock minus ZooKeeper's; if they differ by more than 5 s, the node is not "
    "ready",
)

BUILD = gauge(
    "build_info", "1; the labels say which release runs, on which Python", "version", "python"
)
DISK_FREE = gauge(
    "disk_free_bytes",
    "bytes that this process may still write, by place: work (its work folder, or the system's "
    "temporary folder), and root, if that is a local folder",
    "place",
)
DISK_SIZE = gauge("disk_size_bytes", "size of these file systems", "place")
MEMORY_LIMIT = gauge(
    "memory_limit_bytes",
    "what this process may use at most: the limit of its control group, or the machine's memory; "
    "compare `process_resident_memory_bytes`",
)
CERTIFICATE = gauge(
    "certificate_expires_seconds",
    "when the certificate that this process serves expires, in Unix time; nothing without TLS",
)

STORAGE = (STORAGE_SECONDS, STORAGE_ERRORS, STORAGE_RETRIES, STORAGE_READ, STORAGE_WRITTEN)
ZOOKEEPER = (ZOOKEEPER_CONNECTED, ZOOKEEPER_LOST, CLOCK_SKEW)
HOST = (BUILD, DISK_FREE, DISK_SIZE, MEMORY_LIMIT, CERTIFICATE)
EVERY = (READY, *STORAGE, *ZOOKEEPER, *HOST)

LEADING = gauge(
    "leading", "1: this process is the controller, or leads the order or offsets job", "election"
)
