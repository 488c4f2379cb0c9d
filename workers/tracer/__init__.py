"""The tracer: exports the spans of calls, as the log tells them, to an OpenTelemetry collector. It decides nothing."""
