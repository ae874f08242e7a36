"""What the tables say: columns, marks, rules of topics. Pure: nothing is read or written here."""
