"""What comes in, as Spark sees it: shards are looked through, and batches are cut of them."""
