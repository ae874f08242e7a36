"""Queue groups: each record to one worker, settled one by one."""
