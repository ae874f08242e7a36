"""Groups and their members: who may join, who gets what, where a group starts."""
