"""What tidies and mends tables, outside every commit path of a service."""
