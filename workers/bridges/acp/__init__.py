"""The Agent Client Protocol: any agent in any editor."""
