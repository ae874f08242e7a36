"""Stream groups over HTTP: members, fetch, acks, take-over."""
