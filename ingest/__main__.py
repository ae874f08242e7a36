"""`python -m ingest`: one ingest node. Without --zookeeper: no notification, no registration."""

from ingest.server import run
from serving.command import main

if __name__ == "__main__":
    main("python -m ingest", "One ingest node.", "ingest", run)
