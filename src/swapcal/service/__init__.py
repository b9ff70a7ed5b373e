"""Live forecasts over HTTP that lose nothing: the service and its client."""
