"""What polls of both modes share: which records match, and what left to a member."""
