"""Visible text and rows for people, made once for page, command line and message."""
