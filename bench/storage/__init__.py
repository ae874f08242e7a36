"""Lives here: what storage alone can do: commits, the log's reader and writer, object stores."""
