"""Passkeys of approvers, and proofs of answers signed with them."""
