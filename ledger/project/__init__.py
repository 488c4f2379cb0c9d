"""The project stream: lasting grants. Pure."""
