"""The pages, one module each: what it asks for, and with which template it is shown."""
