"""Conversion of rules from one dialect to another by their meaning.

A rule that the target dialect cannot express becomes stricter, never looser: an allow is left out, a deny or an ask is
widened. Each such change is reported. A rule without a report is judged the same in both dialects.
"""
