"""The panels of the Grafana dashboard: what is shown, by which query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: queries by their legends."""

    title: str
    unit: str
    queries: dict[str, str]


def _p99(name: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({name}_bucket[$__rate_interval])))"


def _rate(name: str, by: str = "") -> str:
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({name}[$__rate_interval]))"


ROWS: dict[str, list[Panel]] = {
    "Is it well?": [
        Panel("Ready", "short", {"{{role}} {{instance}}": "lakequeue_ready"}),
        Panel(
            "Who leads",
            "short",
            {"{{election}} {{instance}}": "lakequeue_leading == 1"},
        ),
        Panel(
            "Nodes, members, partitions",
            "short",
            {
                "{{kind}} nodes": "max by (kind) (lakequeue_nodes)",
                "members": "sum (lakequeue_consumer_members)",
                "producers": "sum (lakequeue_ingest_producers)",
                "partitions": "max (lakequeue_topic_partitions)",
                "topics": "max (lakequeue_topics)",
                "groups": "max (lakequeue_groups)",
            },
        ),
    ],
    "Records": [
        Panel(
            "In, ordered, out",
            "cps",
            {
                "acknowledged": _rate("lakequeue_ingest_records_total"),
                "{{result}}": _rate("lakequeue_order_records_total", "result"),
                "put aside: {{reason}}": _rate("lakequeue_order_put_aside_total", "reason"),
                "taken, not of the schema": _rate("lakequeue_ingest_faulty_values_total"),
                "to {{group}}": _rate("lakequeue_consumer_delivered_records_total", "group"),
            },
        ),
        Panel(
            "Bytes in, out",
            "Bps",
            {
                "acknowledged": _rate("lakequeue_ingest_record_bytes_total"),
                "to {{group}}": _rate("lakequeue_consumer_delivered_bytes_total", "group"),
            },
        ),
        Panel(
            "Requests refused",
            "cps",
            {
                "produce: {{outcome}}": "sum by (outcome) (rate("
                'lakequeue_ingest_requests_total{outcome!="ok"}[$__rate_interval]))',
                "ack: {{code}}": _rate("lakequeue_consumer_refused_acks_total", "code"),
                "undecodable: {{group}}": _rate(
                    "lakequeue_consumer_undecodable_records_total", "group"
                ),
                "gaps: {{instance}}": "lakequeue_consumer_gap_offsets",
            },
        ),
        Panel(
            "Not yet ordered",
            "short",
            {
                "records, by ingest": "sum (lakequeue_ingest_unordered_records)",
                "records, by the order job": "sum (lakequeue_order_pending_records)",
                "shards that wait for a person": "sum (lakequeue_order_waiting_shards)",
            },
        ),
        Panel(
            "Oldest not yet ordered",
            "s",
            {"{{instance}}": "lakequeue_ingest_unordered_seconds"},
        ),
        Panel(
            "Bytes waiting",
            "bytes",
            {
                "not yet ordered": "sum (lakequeue_ingest_unordered_bytes)",
                "not yet committed": "sum (lakequeue_ingest_pending_bytes)",
            },
        ),
    ],
    "Groups": [
        Panel("Lag", "short", {"{{group}} {{topic}}": "lakequeue_group_lag_records"}),
        Panel(
            "Open records of queue groups",
            "short",
            {"{{group}} {{stage}}": "lakequeue_group_open_records"},
        ),
        Panel(
            "At consumers, polls that wait",
            "short",
            {
                "records {{instance}}": "lakequeue_consumer_outstanding_records",
                "polls {{instance}}": "lakequeue_consumer_parked_polls",
            },
        ),
        Panel("Leases held", "short", {"{{instance}}": "lakequeue_consumer_leases"}),
        Panel(
            "Partitions that moved",
            "short",
            {
                "{{change}}": "sum by (change) (increase("
                "lakequeue_consumer_lease_changes_total[$__rate_interval]))",
                "assignments": "sum (increase("
                "lakequeue_controller_assignments_total[$__rate_interval]))",
            },
        ),
        Panel(
            "Dead letters refused for",
            "s",
            {"{{group}}": "max by (group) (lakequeue_consumer_dead_letters_refused_seconds)"},
        ),
        Panel(
            "Dead letters",
            "short",
            {
                "{{group}}": "sum by (group) (increase("
                "lakequeue_consumer_dead_letters_total[$__rate_interval]))"
            },
        ),
        Panel(
            "Facts folded",
            "cps",
            {
                "facts": _rate("lakequeue_offsets_facts_total"),
                "set aside": _rate("lakequeue_offsets_facts_set_aside_total"),
            },
        ),
    ],
    "Times (99th percentile)": [
        Panel(
            "Answers",
            "s",
            {
                "produce": _p99("lakequeue_ingest_request_seconds"),
                "ack": _p99("lakequeue_consumer_ack_seconds"),
            },
        ),
        Panel(
            "Group commit of ingest, by phase",
            "s",
            {"{{phase}}": _p99("lakequeue_ingest_commit_seconds", "phase")},
        ),
        Panel(
            "Group commit of facts, by phase",
            "s",
            {"{{phase}}": _p99("lakequeue_consumer_commit_seconds", "phase")},
        ),
        Panel(
            "Batch of the order job, by phase",
            "s",
            {"{{phase}}": _p99("lakequeue_order_batch_seconds", "phase")},
        ),
        Panel("Fold", "s", {"fold": _p99("lakequeue_offsets_fold_seconds")}),
        Panel(
            "Records in a commit, in a batch (mean)",
            "short",
            {
                "commit": f"{_rate('lakequeue_ingest_group_rows_sum')} / "
                f"{_rate('lakequeue_ingest_group_rows_count')}",
                "batch": f"{_rate('lakequeue_order_batch_rows_sum')} / "
                f"{_rate('lakequeue_order_batch_rows_count')}",
            },
        ),
    ],
    "Connections and calls": [
        Panel(
            "Calls",
            "reqps",
            {"{{call}} {{status}}": _rate("lakequeue_http_request_seconds_count", "call, status")},
        ),
        Panel(
            "Time of a call (mean; waiting included)",
            "s",
            {
                "{{call}}": f"{_rate('lakequeue_http_request_seconds_sum', 'call')} / "
                f"{_rate('lakequeue_http_request_seconds_count', 'call')}"
            },
        ),
        Panel(
            "Connections, calls that wait",
            "short",
            {
                "connections {{instance}}": "lakequeue_front_connections",
                "wait: {{kind}}": "sum by (kind) (lakequeue_front_waiting_calls)",
                "run: {{kind}}": "sum by (kind) (lakequeue_front_calls)",
            },
        ),
        Panel(
            "Refused at a limit, ended at a deadline",
            "cps",
            {
                "{{role}}: limit of {{limit}}": _rate(
                    "lakequeue_front_refused_total", "role, limit"
                ),
                "{{role}}: slow {{deadline}}": _rate(
                    "lakequeue_front_deadlines_total", "role, deadline"
                ),
                "{{role}}: {{code}}": _rate("lakequeue_access_refused_total", "role, code"),
                "{{role}}: streams paused": _rate("lakequeue_access_pauses_total", "role"),
            },
        ),
        Panel(
            "Budgets taken",
            "percentunit",
            {
                "{{instance}} {{budget}}": "lakequeue_front_budget_bytes / "
                "lakequeue_front_budget_limit_bytes"
            },
        ),
    ],
    "SQS gateways": [
        Panel(
            "Requests of SQS clients",
            "reqps",
            {
                "{{operation}} {{outcome}}": _rate(
                    "lakequeue_sqs_requests_total", "operation, outcome"
                )
            },
        ),
        Panel(
            "Time of a request (p99; waiting included)",
            "s",
            {"{{operation}}": _p99("lakequeue_sqs_request_seconds", "operation")},
        ),
    ],
    "Storage and coordination": [
        Panel(
            "Requests to storage",
            "reqps",
            {
                "{{role}} {{operation}}": _rate(
                    "lakequeue_storage_request_seconds_count", "role, operation"
                )
            },
        ),
        Panel(
            "Time of a request to storage (mean)",
            "s",
            {
                "{{role}} {{operation}}": (
                    f"{_rate('lakequeue_storage_request_seconds_sum', 'role, operation')} / "
                    f"{_rate('lakequeue_storage_request_seconds_count', 'role, operation')}"
                )
            },
        ),
        Panel(
            "Storage errors and retries",
            "short",
            {
                "{{role}} {{operation}} {{code}}": "sum by (role, operation, code) (increase("
                "lakequeue_storage_errors_total[$__rate_interval]))",
                "{{role}} commits put again": "sum by (role) (increase("
                "lakequeue_storage_retries_total[$__rate_interval]))",
            },
        ),
        Panel(
            "Bytes to and from storage",
            "Bps",
            {
                "{{role}} read": _rate("lakequeue_storage_read_bytes_total", "role"),
                "{{role}} written": _rate("lakequeue_storage_written_bytes_total", "role"),
            },
        ),
        Panel(
            "ZooKeeper",
            "short",
            {
                "connected {{instance}}": "lakequeue_zookeeper_connected",
                "sessions lost {{instance}}": "increase("
                "lakequeue_zookeeper_sessions_lost_total[$__rate_interval])",
            },
        ),
        Panel("Clock off ZooKeeper's", "s", {"{{instance}}": "lakequeue_clock_skew_seconds"}),
    ],
    "Tables and processes": [
        Panel("Data files", "short", {"{{table}}": "lakequeue_table_data_files"}),
        Panel(
            "Log objects, shards",
            "short",
            {
                "{{table}} log objects": "lakequeue_table_log_objects",
                "{{table}} shards": "lakequeue_shards",
            },
        ),
        Panel("Bytes", "bytes", {"{{table}}": "lakequeue_table_data_bytes"}),
        Panel(
            "Maintenance",
            "short",
            {
                "{{run}} {{outcome}}": "sum by (run, outcome) (increase("
                "lakequeue_maintenance_runs_total[1h]))"
            },
        ),
        Panel(
            "Memory",
            "bytes",
            {
                "{{instance}}": "process_resident_memory_bytes",
                "limit {{instance}}": "lakequeue_memory_limit_bytes",
                "tail {{instance}}": "lakequeue_consumer_tail_bytes",
            },
        ),
        Panel(
            "Free space",
            "percentunit",
            {
                "{{instance}} {{place}}": "lakequeue_disk_free_bytes / lakequeue_disk_size_bytes",
            },
        ),
        Panel(
            "Certificates expire in",
            "s",
            {"{{instance}}": "lakequeue_certificate_expires_seconds - time()"},
        ),
        Panel(
            "Releases",
            "short",
            {"{{version}}, Python {{python}}": "count by (version, python) (lakequeue_build_info)"},
        ),
        Panel(
            "Ids for deduplication, incarnations, terms",
            "short",
            {
                "ids": "max (lakequeue_order_index_ids)",
                "inbox shards opened by {{instance}}": "lakequeue_ingest_incarnations",
                "terms begun by {{instance}}": "lakequeue_terms_total",
            },
        ),
    ],
}
"""Row → its panels. A test asks each query of a Prometheus that watches a running queue."""
