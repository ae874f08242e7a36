"""What a front counts: budgets of bytes, shares of calls, deadlines of clients, and answers."""
