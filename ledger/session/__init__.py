"""The session: pure `decide` and `evolve`. No I/O, no clock, no randomness.

Nothing is imported here: whoever reads a session's state need not wait for the rules.
"""
