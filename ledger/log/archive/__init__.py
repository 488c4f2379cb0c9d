"""Archived sessions: files of whole streams outside the server, from which every entry is read back byte for byte."""
