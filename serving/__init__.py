"""What the two HTTP services share: command line, process, answers."""
