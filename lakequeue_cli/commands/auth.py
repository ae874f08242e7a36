"""`lakequeue auth`: switches authentication on, makes keys, gives rights. Works on the root itself.

Whoever can write to the root can use it. Every node knows of a change within a second or two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakequeue.errors import InvalidRequest, MissingDependency, UnknownName
from lakequeue.extras import pip_install
from lakequeue.settings import Settings
from lakequeue_cli.audited import operator
from lakequeue_cli.key_files import handing_over
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from queue_access.registry import Entry, Registry
    from queue_tables.entries import AccessTable
    from queue_tables.root import QueueRoot

app = typer.Typer(help="Who may do what: keys, rights, issuers, quotas.", no_args_is_help=True)
key_app = typer.Typer(help="API keys.", no_args_is_help=True)
issuer_app = typer.Typer(help="Issuers of tokens (OIDC).", no_args_is_help=True)
app.add_typer(key_app, name="key")
app.add_typer(issuer_app, name="issuer")

Root = Annotated[str | None, typer.Option("--root", help="Root folder or URI of the queue.")]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", help="Write the key there (mode 0600) instead of showing it."),
]
Names = Annotated[list[str] | None, typer.Option(help="Name, or its beginning: orders-*")]


@app.command()
def init(root: Root = None, key_file: KeyFile = None) -> None:
    """Switch authentication on, and make a key that may do everything.

    The key is shown once. From now on every call but /healthz and /readyz needs one.
    """
    from queue_access.keys import new_key
    from queue_access.registry import LOCKED, Entry, entry_of_grant, entry_of_key
    from queue_access.rights import EVERY, Grant, Kind, Right

    text, made = new_key("admin")
    grant = entry_of_grant("admin", Grant(Right.ADMIN, Kind.QUEUE, EVERY))

    def wanted(registry: Registry) -> list[Entry]:
        if registry.locked:
            raise InvalidRequest(
                "authentication is on already",
                hint="lakequeue auth key create admin makes another key",
            )
        return [Entry(LOCKED, LOCKED), entry_of_key(made), grant]

    with handing_over(text, key_file):
        _change(root, wanted, "auth init", "admin", create=True)
    note("authentication is on: nodes ask for credentials within a second or two")
    note("next: lakequeue auth key create NAME; lakequeue auth grant NAME producer --topic …")


@app.command()
def off(
    anybody_may_do_everything: Annotated[
        bool, typer.Option("--anybody-may-do-everything", help="Confirm that you want this.")
    ] = False,
    root: Root = None,
) -> None:
    """Switch authentication off. Keys and rights stay, for when it is switched on again.

    Nodes that others can reach let nobody in any more: only those on 127.0.0.1 go on.
    """
    from queue_access.registry import LOCKED, Entry

    if not anybody_may_do_everything:
        raise InvalidRequest(
            "without authentication anybody who reaches a port may read and delete everything",
            hint="lakequeue auth off --anybody-may-do-everything",
        )
    _change(root, lambda _: [Entry(LOCKED, LOCKED, deleted=True)], "auth off", "")
    note("authentication is off: nodes that listen on other addresses than 127.0.0.1 refuse all")


@app.command("list")
def list_all(root: Root = None, as_json: AsJson = False) -> None:
    """Everything there is, without a secret: keys, grants, issuers, quotas."""
    from queue_access.registry import described

    table = _table(root)
    entries = [described(entry) for entry in table.entries() if not entry.deleted]
    if as_json:
        print_json({"locked": table.locked, "entries": entries})
        return
    note("authentication is " + ("on" if table.locked else "off: lakequeue auth init"))
    shown = [(e["kind"], e["principal"], e["name"], _day(e["expires_at"])) for e in entries]
    print_table(("KIND", "PRINCIPAL", "NAME", "EXPIRES"), shown)


@key_app.command("create")
def key_create(
    principal: Annotated[str, typer.Argument(help="Whose key it is.")],
    expires: Annotated[str | None, typer.Option(help="After so long: 90d, 12h, 30m.")] = None,
    root: Root = None,
    key_file: KeyFile = None,
) -> None:
    """Make a key. It is shown once, and kept nowhere. A principal may have several."""
    from queue_access.asked import age_s, checked_principal
    from queue_access.keys import new_key
    from queue_access.registry import entry_of_key

    until = None if expires is None else int((time.time() + age_s(expires)) * 1_000_000)
    text, made = new_key(checked_principal(principal), until)
    with handing_over(text, key_file):
        _change(root, lambda _: [entry_of_key(made)], "auth key create", principal)


@key_app.command("list")
def key_list(root: Root = None, as_json: AsJson = False) -> None:
    """The keys, by their beginnings."""
    keys = [e for e in _table(root).entries() if e.kind == "key" and not e.deleted]
    if as_json:
        print_json(
            [{"id": e.name, "principal": e.principal, "expires_at": e.expires_at} for e in keys]
        )
        return
    print_table(
        ("KEY", "PRINCIPAL", "EXPIRES"),
        [(f"lq_{e.name}_…", e.principal, _day(e.expires_at)) for e in keys],
    )


@key_app.command("revoke")
def key_revoke(
    key: Annotated[str, typer.Argument(help="The id of the key, or its beginning lq_<id>.")],
    root: Root = None,
) -> None:
    """Revoke a key: no node takes it any more, within a second or two."""
    key_id = key.removeprefix("lq_").partition("_")[0]

    def wanted(registry: Registry) -> list[Entry]:
        from queue_access.registry import entry_of_key

        if key_id not in registry.keys:
            raise UnknownName(f"there is no key lq_{key_id}", hint="lakequeue auth key list")
        return [replace(entry_of_key(registry.keys[key_id]), deleted=True)]

    _change(root, wanted, "auth key revoke", f"lq_{key_id}")


@app.command()
def grant(
    principal: Annotated[str, typer.Argument(help="ada, corp/ada, corp/groups/x, cert/x")],
    what: Annotated[str, typer.Argument(help="A right or a role: see `lakequeue auth roles`.")],
    topic: Names = None,
    group: Names = None,
    producer: Names = None,
    queue: Annotated[bool, typer.Option("--queue", help="Over metrics and advice.")] = False,
    root: Root = None,
) -> None:
    """Give a right or a role over names, which need not exist yet."""
    entries = _grants(principal, what, topic, group, producer, queue=queue)
    _change(root, lambda _: entries, f"auth grant {what}", principal)


@app.command()
def ungrant(
    principal: Annotated[str, typer.Argument(help="As given to `grant`.")],
    what: Annotated[str, typer.Argument(help="As given to `grant`.")],
    topic: Names = None,
    group: Names = None,
    producer: Names = None,
    queue: Annotated[bool, typer.Option("--queue")] = False,
    root: Root = None,
) -> None:
    """Take back what `grant` with the same words has given."""
    entries = _grants(principal, what, topic, group, producer, queue=queue)

    def wanted(registry: Registry) -> list[Entry]:
        from queue_access.registry import entry_of_grant

        there = [entry_of_grant(principal, g).name for g in registry.grants.get(principal, ())]
        gone = [replace(entry, deleted=True) for entry in entries if entry.name in there]
        if not gone:
            raise UnknownName(f"{principal} has no such grant", hint="lakequeue auth list")
        return gone

    _change(root, wanted, f"auth ungrant {what}", principal)


@app.command()
def roles() -> None:
    """The roles, and the rights that they are."""
    from queue_access.rights import ROLES, Right

    rows = [
        (name, "; ".join(f"{right} over {', '.join(kinds)}" for right, kinds in parts))
        for name, parts in ROLES.items()
    ]
    print_table(("ROLE", "RIGHTS"), rows)
    note(f"rights: {', '.join(Right)}")


@app.command()
def quota(
    principal: Annotated[str, typer.Argument(help="Whose; `*`: all that have none.")],
    requests_per_s: Annotated[float | None, typer.Option()] = None,
    bytes_per_s: Annotated[
        float | None, typer.Option(help="Of what it sends; and as much of what it reads.")
    ] = None,
    records_per_s: Annotated[float | None, typer.Option()] = None,
    connections: Annotated[int | None, typer.Option()] = None,
    topics: Annotated[int | None, typer.Option()] = None,
    partitions: Annotated[int | None, typer.Option()] = None,
    groups: Annotated[int | None, typer.Option()] = None,
    root: Root = None,
) -> None:
    """Set what a principal may use of each node. What is not given has no limit."""
    from queue_access.asked import checked_subject
    from queue_access.quotas import checked_quota
    from queue_access.registry import entry_of_quota

    given = {
        "requests_per_s": requests_per_s,
        "bytes_per_s": bytes_per_s,
        "records_per_s": records_per_s,
        "connections": connections,
        "topics": topics,
        "partitions": partitions,
        "groups": groups,
    }
    entry = entry_of_quota(checked_subject(principal), checked_quota(given))
    _change(root, lambda _: [entry], "auth quota", principal)


@issuer_app.command("add")
def issuer_add(
    name: Annotated[str, typer.Argument(help="Begins the names of its principals: corp/ada.")],
    url: Annotated[str, typer.Option(help="The claim iss, to the letter.")],
    audience: Annotated[str, typer.Option(help="What stands in aud of tokens for this queue.")],
    jwks_url: Annotated[str, typer.Option(help="Where its public keys are.")],
    algorithm: Annotated[list[str] | None, typer.Option(help="RS256 and ES256 by default.")] = None,
    principal_claim: Annotated[str, typer.Option()] = "sub",
    groups_claim: Annotated[str, typer.Option()] = "groups",
    skew_s: Annotated[int, typer.Option(min=0, max=300)] = 30,
    root: Root = None,
) -> None:
    """Take the tokens of an issuer."""
    from queue_access.asked import checked_jwks_url, checked_principal
    from queue_access.registry import entry_of_issuer
    from queue_access.tokens import ALGORITHMS, Issuer

    found = Issuer(
        checked_principal(name),
        url,
        audience,
        checked_jwks_url(jwks_url),
        tuple(algorithm or ALGORITHMS),
        principal_claim,
        groups_claim,
        skew_s,
    )
    _change(root, lambda _: [entry_of_issuer(found)], "auth issuer add", name)


@issuer_app.command("remove")
def issuer_remove(name: str, root: Root = None) -> None:
    """Take no more tokens of an issuer."""

    def wanted(registry: Registry) -> list[Entry]:
        from queue_access.registry import entry_of_issuer

        known = {issuer.name: issuer for issuer in registry.issuers.values()}
        if name not in known:
            raise UnknownName(f"there is no issuer {name!r}", hint="lakequeue auth list")
        return [replace(entry_of_issuer(known[name]), deleted=True)]

    _change(root, wanted, "auth issuer remove", name)


@app.command()
def zookeeper(
    old_password_file: Annotated[
        Path | None, typer.Option(help="The password that they are closed with now.")
    ] = None,
    root: Root = None,
) -> None:
    """Close all nodes of this queue in ZooKeeper to whoever does not show the password.

    It is the one that coordination.password_file names. Processes that start with it close open
    nodes by themselves; this is for a new password, while no process runs.
    """
    from coordination.zookeeper.closing import close_nodes
    from coordination.zookeeper.credentials import password_of, read_password, shown_as
    from coordination.zookeeper.session import Session

    opened = _open(root)
    settings = Settings()
    if settings.zookeeper is None or password_of(settings.coordination) is None:
        raise InvalidRequest(
            "there is no ZooKeeper, or no password for it",
            hint="set LAKEQUEUE_ZOOKEEPER and LAKEQUEUE_COORDINATION__PASSWORD_FILE",
        )
    session = Session(settings.zookeeper, opened.queue_id, "cli", settings.coordination)
    if old_password_file is not None:
        old = shown_as(settings.coordination.user, read_password(old_password_file))
        session.kazoo.auth_data.add(old)
    session.start()
    try:
        note(f"{close_nodes(session, anew=True)} nodes are closed")
    finally:
        session.stop()


# -- shared ---------------------------------------------------------------------------------------


def _grants(
    principal: str,
    what: str,
    topic: Sequence[str] | None,
    group: Sequence[str] | None,
    producer: Sequence[str] | None,
    *,
    queue: bool,
) -> list[Entry]:
    from queue_access.asked import checked_subject
    from queue_access.registry import entry_of_grant
    from queue_access.rights import EVERY, Kind, grants_of

    over = {Kind.TOPIC: topic, Kind.GROUP: group, Kind.PRODUCER: producer}
    patterns = {kind: names for kind, names in over.items() if names}
    if queue:
        patterns[Kind.QUEUE] = [EVERY]
    subject = checked_subject(principal)
    return [entry_of_grant(subject, one) for one in grants_of(what, patterns)]


def _change(
    root: str | None,
    judge: Callable[[Registry], Sequence[Entry]],
    call: str,
    name: str,
    *,
    create: bool = False,
) -> None:
    """Commit, and put it down in the audit."""
    from queue_access.audit_line import Line
    from queue_access.registry import told
    from queue_tables.audit import Audit

    opened = _open(root, create=create)
    who = operator()
    table = _table_of(opened)
    before = {(entry.kind, entry.name): entry for entry in table.entries()}
    made = table.change(judge, who)
    old = [before[one.kind, one.name] for one in made if (one.kind, one.name) in before]
    line = Line(who, f"lakequeue {call}", "done", name, before=told(old), after=told(made))
    Audit(opened, "cli").changed(line)


def _table(root: str | None) -> AccessTable:
    return _table_of(_open(root))


def _table_of(opened: QueueRoot) -> AccessTable:
    from queue_tables.entries import AccessTable

    return AccessTable(opened)


def _open(root: str | None, *, create: bool = False) -> QueueRoot:
    try:
        from queue_tables.root import QueueRoot
    except ImportError as error:
        raise MissingDependency(
            f"this works on the root itself, and {error.name} is not installed",
            hint=pip_install("server"),
        ) from error
    settings = Settings(**({} if root is None else {"root": root}))
    if create:
        return QueueRoot.open(settings.root, needs=())
    return QueueRoot.existing(settings.root)


def _day(micros: int | None) -> str:
    if micros is None:
        return "never"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(micros / 1_000_000))
