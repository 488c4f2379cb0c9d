"""OpenCode: its event stream is followed, each permission it asks for is judged by the gateway, and answered."""
