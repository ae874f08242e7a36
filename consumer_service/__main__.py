"""`python -m consumer_service`: one consumer-service node."""

import gc

if __name__ == "__main__":
    # What is imported stays: to look for garbage in it is a sixth of the start.
    gc.disable()
    from consumer_service.server import run
    from serving.command import main

    gc.freeze()
    gc.enable()
    main("python -m consumer_service", "One consumer-service node.", "consumer", run)
