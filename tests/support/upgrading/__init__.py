"""The last release beside this one: built, run, exchanged process by process."""
