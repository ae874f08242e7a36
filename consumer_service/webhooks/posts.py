"""The webhooks of all groups: registration, and which node posts for which.

For each webhook the nodes elect one that posts, so that its limit of requests at once holds for the
queue and not for each node. It joins the group as a worker, by the nodes' HTTP interface. A node
that has to send its members away does not stand.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import structlog

from consumer_service.clients import Worker
from consumer_service.kept_settings import KeptSettings
from consumer_service.webhooks.runner import WebhookRunner
from consumer_service.webhooks.sealed import Sealed
from consumer_service.webhooks.target import addresses_of, target_of
from coordination.groups import membership
from coordination.groups.webhooks import (
    Webhook,
    delete_webhook,
    exchange_secret,
    put_webhook,
    webhook_of,
    webhooks,
)
from coordination.zookeeper.election import Election, leader
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable, CorruptTable, UnknownWebhook
from lakequeue.records import checked_name
from lakequeue.wire.calls.webhooks import (
    WebhookDescription,
    WebhookRequest,
    new_secret,
    secret_bytes,
)
from queue_access.sealing import is_sealed
from queue_rules.groups.group_config import GroupConfig
from queue_rules.predicates.of_group import check_new, predicate_of
from queue_rules.queues.retry_policy import check_retry
from queue_tables.topics import TopicStore

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
"""A changed webhook is met after this at the latest; a new one at once."""
DRAIN_S = 5.0


class Webhooks:
    """Registers webhooks, and posts for those that this node has won. Thread-safe."""

    def __init__(
        self,
        session: Session,
        node: str,
        topics: TopicStore,
        elsewhere: Callable[[], str | None],
        worker: Callable[[Webhook, str], Worker],
        sealed: Sealed,
        kept: KeptSettings,
        *,
        allow_private: bool,
        ca: Path | None = None,
    ) -> None:
        """`elsewhere`: as `ReadFailover.elsewhere`. `ca`: as of `Endpoint`."""
        self._session = session
        self._node = node
        self._topics = topics
        self._elsewhere = elsewhere
        self._worker = worker
        self._sealed = sealed
        self._kept = kept
        self._allow_private = allow_private
        self._ca = ca
        self._url = ""
        self._posts: dict[str, _Post] = {}
        self._changed = session.waker()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    # -- registration -----------------------------------------------------------------------------

    def put(self, group: str, request: WebhookRequest) -> WebhookDescription:
        """Register. Raises `InvalidRequest`, `UnknownTopic`, `GroupMismatch`, …"""
        checked_name(group, "group")
        addresses_of(target_of(request.url), allow_private=self._allow_private)
        kept = self._kept_secret(group, request.url)
        made = None if request.secret or kept else new_secret()
        secret = request.secret or kept or made or ""
        secret_bytes(secret)
        # A circle of dead-letter topics may go through some that were not looked at since.
        self._topics.refresh()
        topics = [self._topics.get(topic) for topic in request.topics]
        predicate_of(request.given())
        check_retry(request, topics, {topic.topic: topic for topic in self._topics.list()})
        config = GroupConfig("queue", request.given())
        if membership.group_config(self._session, group) is None:
            check_new(config.options)
        self._kept.say_options(group, config)
        membership.ensure_group(self._session, group, config.mode, config.options, self._kept.begin)
        webhook = Webhook(
            group,
            request.url,
            tuple(request.topics),
            secret,
            request.concurrency,
            request.timeout_ms,
            config.options,
            request.format,
        )
        sealed = self._sealed.seal(webhook)
        self._kept.put_webhook(sealed, lambda: put_webhook(self._session, sealed))
        # Told once, to whoever had it made; nobody reads one that is kept.
        return self._described(webhook, secret=made)

    def _kept_secret(self, group: str, url: str) -> str | None:
        """The one it has; a changed URL gets another: who reads there must not sign as the old."""
        known = webhook_of(self._session, group)
        # Opened first: a plain one of an earlier release is sealed by now, one that nobody can open
        # is replaced.
        with contextlib.suppress(CorruptTable):
            return None if known is None or known.url != url else self._sealed.open(known)
        return None

    def get(self, group: str) -> WebhookDescription:
        """Describe. Raises `UnknownWebhook`."""
        webhook = webhook_of(self._session, group)
        if webhook is None:
            raise _unknown(group)
        return self._described(webhook)

    def delete(self, group: str) -> None:
        """Forget it: what is not acked stays in the group. Raises `UnknownWebhook`."""
        checked_name(group, "group")
        if not self._kept.delete_webhook(group, lambda: delete_webhook(self._session, group)):
            raise _unknown(group)

    def _described(self, webhook: Webhook, secret: str | None = None) -> WebhookDescription:
        posting = leader(self._session, _post_name(webhook.group))
        return WebhookDescription(
            group=webhook.group,
            url=webhook.url,
            topics=list(webhook.topics),
            concurrency=webhook.concurrency,
            timeout_ms=webhook.timeout_ms,
            format=webhook.format,
            options=dict(webhook.options),
            secret=secret,
            node=None if posting is None else posting.get("node"),
        )

    # -- posting ----------------------------------------------------------------------------------

    def start(self, url: str) -> None:
        """Stand for every webhook there is; `url` is this node's own."""
        self._url = url
        self._thread.start()

    def stop(self) -> None:
        """Finish what is under way, and give the posts up."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._give_up(self._posts.keys())

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                self._look()
            except CoordinationUnavailable as e:
                log.info("webhooks.delayed", error=e.detail)
            except Exception as e:
                log.exception("webhooks.failed", error=str(e))
            self._changed.wait(LOOK_EVERY_S)

    def _look(self) -> None:
        wanted: dict[str, Webhook] = {}
        if self._elsewhere() is None:
            wanted = webhooks(self._session, self._changed)
        self._give_up(self._posts.keys() - wanted.keys())
        for group, webhook in wanted.items():
            if not is_sealed(webhook.secret):
                exchange_secret(self._session, group, self._sealed.seal)
            if group not in self._posts:
                election = Election(self._session, _post_name(group), {"node": self._node}).start()
                self._posts[group] = _Post(election)
            worker = partial(self._worker, webhook, self._url)
            opened = partial(self._sealed.open, webhook)
            self._posts[group].look(
                webhook, worker, opened, allow_private=self._allow_private, ca=self._ca
            )

    def _give_up(self, groups: Iterable[str]) -> None:
        posts = [self._posts.pop(group) for group in list(groups)]
        for post in posts:
            post.ask_to_stop()
        for post in posts:
            post.end()


class _Post:
    """One webhook at this node: a candidacy, and the runner while it is won."""

    def __init__(self, election: Election) -> None:
        self._election = election
        self._runner: WebhookRunner | None = None

    def look(
        self,
        webhook: Webhook,
        worker: Callable[[], Worker],
        secret: Callable[[], str],
        *,
        allow_private: bool,
        ca: Path | None,
    ) -> None:
        """Run for `webhook` if the post is ours, and not for what it was before."""
        leads = self._election.leading.is_set()
        if self._runner is not None and (not leads or self._runner.webhook != webhook):
            self._end_runner()
        if leads and self._runner is None:
            runner = WebhookRunner(webhook, worker, secret, allow_private=allow_private, ca=ca)
            self._runner = runner.start()

    def ask_to_stop(self) -> None:
        """Begin to end."""
        if self._runner is not None:
            self._runner.stop()

    def end(self) -> None:
        """Stop, then resign: another begins when nothing of ours is under way."""
        self._end_runner()
        self._election.stop()

    def _end_runner(self) -> None:
        if self._runner is not None:
            self._runner.stop()
            self._runner.join(DRAIN_S)
            self._runner = None


def _post_name(group: str) -> str:
    return f"webhook-{group}"


def _unknown(group: str) -> UnknownWebhook:
    return UnknownWebhook(
        f"group {group!r} has no webhook", hint=f"register one: PUT /v1/groups/{group}/webhook"
    )
