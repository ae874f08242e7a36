"""The storage contract: tables, commits, shards, the tail. The only importer of deltalake."""
