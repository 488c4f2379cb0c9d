"""The routes, one file a resource. Each names its operation, under which `workers.gateway.access` says who may."""
