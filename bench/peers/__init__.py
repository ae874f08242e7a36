"""Lives here: `make bench-peers`, lakequeue beside other systems in one run."""
