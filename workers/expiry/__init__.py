"""The expiry worker."""
