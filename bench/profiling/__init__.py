"""Lives here: `make profile`, where the time and the CPU of a record go."""
