"""Pure work beside the event loop."""
