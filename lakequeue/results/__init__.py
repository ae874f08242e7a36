"""What a result table says of how far it goes: marks, and what a RESTORE undid of them."""
