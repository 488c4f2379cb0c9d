"""A command of a script or a CI job that runs once it is allowed: its claim, its process, and the record of its end."""
