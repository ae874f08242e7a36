"""What is streamed into a topic from elsewhere."""
