"""`python -m ingest`: one ingest node. Without --zookeeper: no notification, no registration."""

from lakequeue.processes.quick_start import importing

if __name__ == "__main__":
    with importing():
        from ingest.server import run
        from serving.command import main

    main("python -m ingest", "One ingest node.", "ingest", run)
