"""The sink: options, rows of the inbox, and the commit that makes them visible."""
