"""Web Push: the key of this deployment, the push services that it calls, and one message to one device."""
