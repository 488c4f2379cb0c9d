"""Rules carried from one dialect to another by their meaning.

What the other dialect cannot say becomes stricter, never looser: an allow is left out, a deny or an ask grows. Each such
change is reported; a rule without a report is judged the same.
"""

from ledger.policy.converting.convert import convert
from ledger.policy.converting.model import Change, Converted

__all__ = ["Change", "Converted", "convert"]
