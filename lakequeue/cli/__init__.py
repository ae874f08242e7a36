"""The command line: `lakequeue …`."""
