"""The normal form of a command: what it means, however it is spelled.

A program, its sub-commands, its options by one name with their values, and its operands, each with what it is. Tables of
programs (`ledger/policy/shell/programs`) give the words their meaning. What the form cannot say is not understood.
"""

from __future__ import annotations

from ledger.policy.shell.forms.model import Given, NormalForm, Operand, Unclear
from ledger.policy.shell.forms.nodes import Effect, Kind, Node, Option
from ledger.policy.shell.forms.programs import known_programs, program_table
from ledger.policy.shell.forms.reading import form_of, form_of_words

__all__ = [
    "Effect",
    "Given",
    "Kind",
    "Node",
    "NormalForm",
    "Operand",
    "Option",
    "Unclear",
    "form_of",
    "form_of_words",
    "known_programs",
    "program_table",
]
