"""Pure work beside the event loop: in processes of our own, each piece with a budget and an end.

A thread would not do. Regular expressions and the shell's grammar hold the interpreter until they are done, and nothing
ends them but the end of their process.
"""
