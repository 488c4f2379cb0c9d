"""File accesses of redirections."""

from __future__ import annotations

from ledger.policy.shell.model import Access, Redirect


def accesses(redirect: Redirect) -> tuple[Access, ...]:
    """Return the accesses of a redirection to its target; none for here-documents and descriptors."""
    kind = redirect.operator.lstrip("0123456789")
    target = redirect.target.resolved
    if kind.startswith("<<") or target == "/dev/null":
        return ()
    if kind in (">&", "<&") and target is not None and target.rstrip("-").isdigit():
        return ()
    return {"<": (Access.READ,), "<&": (Access.READ,), "<>": (Access.READ, Access.EDIT)}.get(kind, (Access.EDIT,))
