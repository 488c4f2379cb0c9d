"""OpenCode: the bridge follows its event stream, and answers each permission request with the gateway's verdict."""
