"""Care of the streams: checks, export and import, health."""
