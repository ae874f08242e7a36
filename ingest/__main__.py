"""`python -m ingest`: one ingest node. Without --zookeeper: no notification, no registration."""

import gc

if __name__ == "__main__":
    # What is imported stays: to look for garbage in it is a sixth of the start.
    gc.disable()
    from ingest.server import run
    from serving.command import main

    gc.freeze()
    gc.enable()
    main("python -m ingest", "One ingest node.", "ingest", run)
