"""The normal form of a command: its meaning, independent of spelling.

It consists of a program, its sub-commands, its options under canonical names with their values, and its operands with
their kinds. The tables of programs (`ledger/policy/shell/programs`) define the meaning of words. Words outside the
tables are reported as unclear.
"""
