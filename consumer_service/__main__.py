"""`python -m consumer_service`: one consumer-service node."""

from consumer_service.server import run
from serving.command import main

if __name__ == "__main__":
    main("python -m consumer_service", "One consumer-service node.", "consumer", run)
