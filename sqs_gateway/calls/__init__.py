"""What each operation does: calls of the queue's services, through the SDK's own clients."""
