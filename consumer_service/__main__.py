"""`python -m consumer_service`: one consumer-service node."""

from lakequeue.processes.quick_start import importing

if __name__ == "__main__":
    with importing():
        from consumer_service.server import run
        from serving.command import main

    main("python -m consumer_service", "One consumer-service node.", "consumer", run)
