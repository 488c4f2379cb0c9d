"""Visible text and rows for people: for the page, the command line and messages."""
