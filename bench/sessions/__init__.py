"""What the sessions of users take: how long until a first and a further query has ended."""
