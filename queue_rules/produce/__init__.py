"""What is checked and settled of a produce request."""
