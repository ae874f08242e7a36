"""Commands about a root as a whole: to raise its format, to copy it away and back."""
