"""From rows in memory to a commit in the inbox, and back to who waits for it. No HTTP."""
