"""Data files: from Arrow to Parquet and back, whoever has written them."""
