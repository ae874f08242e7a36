"""A shop whose tasks Celery runs, on lakequeue: see README.md."""
