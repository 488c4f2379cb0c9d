"""The normal form of a command: its meaning, independent of spelling.

It consists of a program, its sub-commands, its options under canonical names with their values, and its operands with
their kinds. The tables of programs (`ledger/policy/shell/programs`) define the meaning of words. Words outside the
tables are reported as unclear.
"""

from __future__ import annotations

from ledger.policy.shell.forms.model import Given, NormalForm, OperandWord, Unclear
from ledger.policy.shell.forms.nodes import Effect, OperandKind, Option, ProgramNode
from ledger.policy.shell.forms.programs import known_programs, program_table
from ledger.policy.shell.forms.reduction import form_of, form_of_words

__all__ = [
    "Effect",
    "Given",
    "NormalForm",
    "OperandKind",
    "OperandWord",
    "Option",
    "ProgramNode",
    "Unclear",
    "form_of",
    "form_of_words",
    "known_programs",
    "program_table",
]
