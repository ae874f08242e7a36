"""What the command lines of the jobs share: options, exit codes, reports."""
