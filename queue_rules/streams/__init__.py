"""Stream groups: records in offset order, and a position that is committed."""
