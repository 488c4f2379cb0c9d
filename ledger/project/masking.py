"""Masks in what a project's commands bring from outside, before anything of it is written. Pure."""

from __future__ import annotations

from ledger.masks.masking import Masks, require_no_secret, with_masked_reason
from ledger.project.state import GrantInProject, ProjectCommand


def masked_project_command(command: ProjectCommand, masks: Masks) -> ProjectCommand:
    """Return a command with masks in its reason. Raises InputError for a grant's pattern with a secret in it."""
    # The pattern of an answer comes from its request, which is in the log already.
    if isinstance(command, GrantInProject) and command.request_id is None:
        require_no_secret(command.pattern)
    masked: ProjectCommand = with_masked_reason(command, masks)
    return masked
