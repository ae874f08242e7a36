"""`lakequeue webhook`: set, show, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lakequeue.wire import WebhookDescription, WebhookRequest
from lakequeue.wire.calls.webhooks import WebhookFormat
from lakequeue_cli.declared_options import settings_of, with_settings
from lakequeue_cli.options import AsJson, ConsumerUrl, TimeoutS, admin
from lakequeue_cli.output import print_json, print_table

app = typer.Typer(help="Post the records of a queue group to a URL.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command("set")
@with_settings(*settings_of(WebhookRequest))
def set_(
    group: Group,
    *,
    url: Annotated[str, typer.Argument(help="Where to post: http:// or https://.")],
    topic: Annotated[list[str], typer.Option("-t", "--topic", help="May be repeated.")],
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Requests at the same time.")] = 8,
    request_timeout_ms: Annotated[
        int, typer.Option(min=100, help="Timeout of one request.")
    ] = 10_000,
    form: Annotated[
        WebhookFormat,
        typer.Option(
            "--format", help="record: JSON of the record; cloudevents: a CloudEvent in binary mode."
        ),
    ] = "record",
    settings: dict[str, Any],
    secret_file: Annotated[
        Path | None, typer.Option(help="File with the secret, whsec_…; by default a new one.")
    ] = None,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Create or change a webhook. Prints the secret that signs its requests, if it is a new one."""
    if secret_file is not None:
        # Not the secret itself: every user of a machine can read the command lines of all.
        settings["secret"] = secret_file.read_text().strip()
    with admin(None, service, timeout_s) as client:
        found = client.set_webhook(
            group,
            url,
            topic,
            concurrency=concurrency,
            timeout_ms=request_timeout_ms,
            format=form,
            **settings,
        )
    _show(found, as_json)


@app.command()
def show(
    group: Group, service: ConsumerUrl = None, timeout_s: TimeoutS = 5.0, as_json: AsJson = False
) -> None:
    """Show the URL of a webhook, and which node posts."""
    with admin(None, service, timeout_s) as client:
        found = client.webhook(group)
    _show(found, as_json)


@app.command()
def delete(group: Group, service: ConsumerUrl = None, timeout_s: TimeoutS = 5.0) -> None:
    """Delete a webhook. The group and its records stay."""
    with admin(None, service, timeout_s) as client:
        client.delete_webhook(group)
    print(f"deleted the webhook of {group}")


def _show(webhook: WebhookDescription, as_json: bool) -> None:
    if as_json:
        print_json(webhook.model_dump(exclude_none=True))
        return
    row = (webhook.group, webhook.url, ",".join(webhook.topics), webhook.concurrency, webhook.node)
    print_table(("GROUP", "URL", "TOPICS", "CONCURRENCY", "NODE"), [row])
    if webhook.secret is not None:
        print(f"secret {webhook.secret}")
