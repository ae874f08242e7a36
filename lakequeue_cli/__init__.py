"""The command `lakequeue`. It may use every package; none may use it."""
