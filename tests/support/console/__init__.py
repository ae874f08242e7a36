"""A running queue with a console, and a real browser that looks at it."""
