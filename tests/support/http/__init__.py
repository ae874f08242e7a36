"""What tests send to the services as HTTP clients, and check of their answers."""
