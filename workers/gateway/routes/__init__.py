"""The routes, one file per resource. `workers.gateway.access` has the roles for each route's operation."""
