"""Pure work beside the event loop: in processes of our own, each piece with a budget and a time limit.

A thread would not do: regular expressions and the shell's grammar hold the interpreter until they are done, and only
the end of their process stops them.
"""
