"""The installation needs a person."""

from __future__ import annotations

from lakequeue.errors.base import LakequeueError


class Broken(LakequeueError):
    """The installation needs a person: page someone."""

    code = "broken"
    http_status = 500


class SchemaDrift(Broken):
    """A table has another schema than declared: run the release that wrote it, or migrate it."""

    code = "schema_drift"
    exit_code = 4


class NewerFormat(Broken):
    """The root was written by a newer lakequeue: upgrade this one."""

    code = "newer_format"
    exit_code = 4


class OlderFormat(Broken):
    """The root is older than this lakequeue reads: the hint names the release that raises it."""

    code = "older_format"
    exit_code = 4


class RootUnusable(Broken):
    """The root cannot be written, or cannot create a file atomically: choose another root."""

    code = "root_unusable"
    exit_code = 4


class PortUnusable(RootUnusable):
    """The port is in use, or may not be used: choose another with --port."""

    code = "port_unusable"


class CorruptTable(Broken):
    """A commit or data file is missing or damaged: `lakequeue doctor` names the table."""

    code = "corrupt_table"


class MissingDependency(Broken):
    """Something outside Python is missing (Java, jars): the hint says how to get it."""

    code = "missing_dependency"
    exit_code = 6


class PortInUse(Broken):
    """Another process listens on the port: stop it, or choose another port."""

    code = "port_in_use"
    exit_code = 3


class AlreadyRunning(Broken):
    """Another `lakequeue up` serves this root: use that one, or stop it."""

    code = "already_running"
    exit_code = 5


class StartFailed(Broken):
    """A service of `lakequeue up` did not become ready: the detail ends with its log."""

    code = "start_failed"
    exit_code = 7


class CoordinationForbidden(Broken):
    """ZooKeeper's nodes have another password: give every process the same one."""

    code = "coordination_forbidden"


class UnlockedDoors(Broken):
    """Others can reach the port while authentication is off: `lakequeue auth init` turns it on."""

    code = "unlocked_doors"
    http_status = 503
