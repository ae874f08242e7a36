"""Who may call what: keys, tokens, rights, quotas. Pure: no I/O, no clock, no table, no HTTP."""
