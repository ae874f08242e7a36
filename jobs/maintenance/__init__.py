"""What keeps tables small: rules of what may go, and the commits that let it go. No Spark."""
