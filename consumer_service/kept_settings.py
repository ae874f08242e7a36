"""What people said about groups, in the table `group_settings`; ZooKeeper has a copy of it.

A change is in the table before it is in ZooKeeper, and ZooKeeper is made to say what the table
says: when a group appears in an ensemble that does not know it, and every few seconds. So an
ensemble that is lost with all its data loses nothing that was said.

A root of an earlier format has no such table: nodes of the release before change ZooKeeper alone.
When its format is raised, what is in ZooKeeper is taken over once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import orjson
import structlog

from coordination.groups import membership
from coordination.groups.pauses import begin_paused, change_pauses, publish_pauses, read_pauses
from coordination.groups.webhooks import Webhook, publish_webhook, webhook_in, webhook_of, webhooks
from coordination.zookeeper.session import Session
from lakequeue.errors import (
    CoordinationUnavailable,
    CorruptTable,
    LakequeueError,
    RootUnusable,
    StorageUnavailable,
)
from queue_access.sealing import is_sealed
from queue_rules.groups.group_config import GroupConfig
from queue_rules.groups.pause_rules import NOTHING_PAUSED, PauseRules
from queue_tables.group_settings import GroupSettings, Key, Setting
from queue_tables.identity import identity_of
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import GROUP_SETTINGS

EVERY_S = 5.0
"""How often ZooKeeper is compared with the table."""

log = structlog.get_logger(__name__)


class KeptSettings:
    """Thread-safe."""

    def __init__(self, session: Session, root: QueueRoot, node: str) -> None:
        self._session = session
        self._root = root
        self._node = node
        self._table = GroupSettings(root)
        self._lock = threading.Lock()
        self._on = GROUP_SETTINGS.name in root.format.features
        self._taken_over = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kept-settings", daemon=True)

    def start(self) -> None:
        """Begin to compare."""
        self._thread.start()

    def stop(self) -> None:
        """Compare no more; a thread that waits for storage is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.compare()
            except LakequeueError as error:
                log.info("group_settings.delayed", error=error.detail)
            except Exception as error:
                log.exception("group_settings.failed", error=str(error))
            self._stopping.wait(EVERY_S)

    def is_on(self) -> bool:
        """Whether the root has the table: asked anew until it has, for an upgrade may bring it."""
        if not self._on:
            features = identity_of(self._root.store).format.features
            self._on = GROUP_SETTINGS.name in features
        return self._on

    # -- pauses -----------------------------------------------------------------------------------

    def change_pauses(
        self, group: str, paused: bool, topic: str | None, partitions: list[int] | None
    ) -> tuple[PauseRules, int]:
        """Pause or resume; the rules and the number of the change. Raises `UnknownGroup`."""
        if not self.is_on():
            changed = change_pauses(self._session, group, paused, topic, partitions)
            if self.is_on():  # raised meanwhile: what was there may have been taken over already
                self._say(("pause", group), lambda _: changed[0].to_json().decode())
            return changed
        there, _ = read_pauses(self._session, group)

        def judged(body: str | None) -> str:
            before = there if body is None else _rules(body)
            return before.changed(paused, topic, partitions).to_json().decode()

        self._say(("pause", group), judged)
        return publish_pauses(self._session, group, lambda: self._pauses_of(group))

    def begin(self, group: str) -> None:
        """Before the group is made in ZooKeeper: whoever joins it there finds what is paused.

        Raises `CoordinationUnavailable` if storage cannot be asked: the group is not made then.
        """
        try:
            rules = self._pauses_of(group) if self.is_on() else NOTHING_PAUSED
        except (StorageUnavailable, RootUnusable, CorruptTable) as error:
            raise CoordinationUnavailable(
                f"whether group {group!r} is paused could not be read: {error.detail}",
                retry_after_s=1.0,
            ) from error
        if rules != NOTHING_PAUSED:
            begin_paused(self._session, group, rules)

    def pauses_of(self, group: str) -> PauseRules:
        """What is paused, whether the ensemble knows the group or not."""
        return self._pauses_of(group) if self.is_on() else read_pauses(self._session, group)[0]

    def _pauses_of(self, group: str) -> PauseRules:
        found = self._body(("pause", group))
        return NOTHING_PAUSED if found is None else _rules(found)

    # -- options ----------------------------------------------------------------------------------

    def say_options(self, group: str, config: GroupConfig) -> None:
        """Keep what a group was made with, before anybody takes a partition of it."""
        if self.is_on():
            body = orjson.dumps({"mode": config.mode, "options": dict(config.options)}).decode()
            self._say(("options", group), lambda _: body)

    def options_of(self, group: str) -> GroupConfig | None:
        """The same, read."""
        body = self._body(("options", group)) if self.is_on() else None
        if body is None:
            return None
        fields = orjson.loads(body)
        return GroupConfig(str(fields["mode"]), fields["options"])

    def forget(self, group: str) -> bool:
        """The group was deleted: whether anything was kept. Its webhook is a thing of its own."""
        if not self.is_on():
            return False
        keys: tuple[Key, ...] = (("options", group), ("pause", group))
        with self._lock:
            known = self._table.read()
            gone = [known[key] for key in keys if key in known and not known[key].deleted]
            if gone:
                wanted = [Setting(one.kind, one.group, deleted=True) for one in gone]
                self._table.change(lambda _: wanted, self._node)
        return bool(gone)

    # -- webhooks ---------------------------------------------------------------------------------

    def put_webhook(self, webhook: Webhook, put: Callable[[], None]) -> None:
        """Register it, sealed; `put` does so in ZooKeeper."""
        self._change_webhook(webhook.group, webhook.data().decode(), put)

    def delete_webhook(self, group: str, delete: Callable[[], bool]) -> bool:
        """Forget it; False if there was none."""
        known = self.is_on() and self._body(("webhook", group)) is not None
        if not known and webhook_of(self._session, group) is None:
            return False
        deleted: list[bool] = []
        self._change_webhook(group, None, lambda: deleted.append(delete()))
        return known or any(deleted)

    def _change_webhook(self, group: str, body: str | None, apply: Callable[[], None]) -> None:
        before = self.is_on()
        if before:
            self._say(("webhook", group), lambda _: body)
        apply()
        if not before and self.is_on():
            self._say(("webhook", group), lambda _: body)

    # -- ZooKeeper says what the table says --------------------------------------------------------

    def compare(self) -> None:
        """See that it does. Raises `CoordinationUnavailable` and storage errors."""
        if not self.is_on():
            return
        if not self._taken_over:
            self._take_over()
            self._taken_over = True
        with self._lock:
            known = self._table.read()
        for kind, group in known:
            if kind == "pause":
                newest = partial(self._pauses_of, group)
                publish_pauses(self._session, group, newest, make=False)
            elif kind == "webhook":
                publish_webhook(self._session, group, partial(self._webhook_of, group))

    def _webhook_of(self, group: str) -> Webhook | None:
        body = self._body(("webhook", group))
        return None if body is None else webhook_in(body.encode())

    def _take_over(self) -> None:
        """What ZooKeeper has from before the table. What the table knows already stays."""
        found: list[Setting] = []
        for group in membership.groups(self._session):
            rules, _ = read_pauses(self._session, group)
            if rules != NOTHING_PAUSED:
                found.append(Setting("pause", group, rules.to_json().decode()))
        for group, webhook in webhooks(self._session).items():
            if is_sealed(webhook.secret):
                found.append(Setting("webhook", group, webhook.data().decode()))
        with self._lock:
            self._table.change(
                lambda known: [one for one in found if one.key not in known], self._node
            )
        log.info("group_settings.compared", found=len(found))

    # -- the table --------------------------------------------------------------------------------

    def _body(self, key: Key) -> str | None:
        with self._lock:
            found = self._table.read().get(key)
        return None if found is None or found.deleted else found.body

    def _say(self, key: Key, judge: Callable[[str | None], str | None]) -> None:
        kind, group = key

        def wanted(known: dict[Key, Setting]) -> list[Setting]:
            there = known.get(key)
            body = judge(None if there is None or there.deleted else there.body)
            if body is None:
                # Also what the table does not know: nobody takes it over from ZooKeeper any more.
                gone = there is not None and there.deleted
                return [] if gone else [Setting(kind, group, deleted=True)]
            same = there is not None and not there.deleted and there.body == body
            return [] if same else [Setting(kind, group, body)]

        with self._lock:
            self._table.change(wanted, self._node)


def _rules(body: str) -> PauseRules:
    return PauseRules.from_json(body.encode())
