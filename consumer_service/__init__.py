"""The consumer service: hands out records to the members of groups, by HTTP."""
