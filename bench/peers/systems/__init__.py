"""Lives here: how each system is started, where its clients find it, and what it promises."""
