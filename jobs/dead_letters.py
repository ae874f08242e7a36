"""Sends dead records back: `python -m jobs.dead_letters`, or `spark-submit jobs/dead_letters.py`.

It goes to the services, as any client does (`lakequeue.client.redrive`): a dead record that is sent
back is a new record of its topic, judged and numbered like others, and the group of the redrive
knows which were. So it may be killed anywhere and started twice; each record goes back once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.command_line.maintenance import Report, parser_of, run_job, run_parts
from lakequeue.arguments import header_of, past_of
from lakequeue.calling import addresses
from lakequeue.client.admin import Admin
from lakequeue.client.redrive import dead_letter_topics, look_through, redrive
from lakequeue.client.redriven import Wanted
from lakequeue.clock import Micros
from lakequeue.errors import WrongUsage
from lakequeue.settings import Settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    parser = parser_of(
        "jobs.dead_letters",
        "Send dead records back to the topics they died in, each once: all, or those chosen by "
        "header and time. The others stay, behind the rest of the dead-letter topic.",
        root=False,
    )
    parser.add_argument(
        "--topic",
        action="append",
        metavar="NAME",
        help="dead-letter topic, may be repeated (every one there is)",
    )
    parser.add_argument(
        "-H",
        "--header",
        action="append",
        metavar="NAME=VALUE",
        help="only records with this header, such as lakequeue-reason=expired; may be repeated",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="only records with a timestamp at or after this: RFC 3339, milliseconds since 1970, "
        "or how long ago (12h)",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="only records with a timestamp before this, in the same forms",
    )
    parser.add_argument(
        "--to", metavar="NAME", help="send them to this topic (the one that each died in)"
    )
    parser.add_argument("--rate", type=float, help="limit of records per second (none)")
    parser.add_argument("--url", help="ingest node(s), separated by commas; from the settings")
    parser.add_argument("--consumer-url", help="consumer-service node(s), likewise")
    return run_job(parser, send_back, argv)


def send_back(settings: Settings, args: argparse.Namespace, now: Micros) -> Report:
    """One run, topic by topic."""
    wanted = wanted_of(args.header or (), args.since, args.until, now)
    if args.rate is not None and not args.rate > 0:
        raise WrongUsage(f"rate {args.rate} is not above 0", hint="records a second")
    urls = addresses.ingest_urls(args.url, settings)
    consumer_urls = addresses.consumer_urls(args.consumer_url, settings)
    names: list[str] = args.topic or []
    if not names:
        with Admin(urls, consumer_urls) as admin:
            names = dead_letter_topics(admin.topics())

    def one(topic: str) -> Report:
        if args.dry_run:
            run = partial(look_through, topic, to=args.to)
        else:
            run = partial(redrive, topic, to=args.to, rate=args.rate)
        return dict(run(urls=urls, consumer_urls=consumer_urls, wanted=wanted).counts())

    return {"topics": run_parts({topic: partial(one, topic) for topic in dict.fromkeys(names)})}


def wanted_of(headers: Sequence[str], since: str | None, until: str | None, now: Micros) -> Wanted:
    """What the options choose. Pure. Raises `WrongUsage`."""
    return Wanted(
        dict(header_of(text) for text in headers) or None,
        None if since is None else past_of(since, now),
        None if until is None else past_of(until, now),
    )


if __name__ == "__main__":
    sys.exit(main())
