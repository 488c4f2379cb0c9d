"""The store on Redis or Valkey: one server, the primary that sentinels name, or a cluster."""
