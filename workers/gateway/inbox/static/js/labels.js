// The words of a request that every face has alike. `workers/presentation/labels.py` has the same; a test compares them.

export const LABELS = {
  "calls_itself": "calls itself",
  "why": "why",
  "demanded": "demanded",
  "approved": "approved",
  "pending_again": "pending again",
  "no_deadline": "no deadline",
  "deadline_passed": "deadline passed",
  "still_asks": "the next such call will still ask",
  "only_once": "this can only be allowed once",
  "waits_for": "waits for",
  "nobody_answered": "nobody answered in time",
  "unfrozen": "by the rules when a freeze ended",
  "although": "by the current rules, although",
  "approve": "Approve",
};

export const ANSWERS = {
  "once": "Allow once",
  "session": "Allow in this session",
  "always": "Always allow",
  "reject": "Reject",
};

export const OUTCOMES = {
  "allowed": "Allowed",
  "denied": "Denied",
  "rejected": "Rejected",
  "corrected": "Rejected with instructions",
  "expired": "Expired",
  "cancelled": "Cancelled",
};

export const EFFECTS = {
  "reads": "reads",
  "changes_here": "changes files here",
  "changes_elsewhere": "changes something elsewhere",
  "irreversible": "cannot be undone",
};

export const DANGERS = {
  "runs-downloaded": "runs downloaded code",
  "privileges": "other rights",
  "deletes": "deletes",
  "secrets": "secrets",
  "outside": "outside the folder",
  "unread": "not understood",
  "network": "network",
  "more": "more",
};

/** Return words with a capital at their beginning. */
export function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
