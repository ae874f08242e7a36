"""One module a command: reads arguments, asks the client or a job, prints."""
