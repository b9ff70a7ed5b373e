"""The service: live forecasts over HTTP that lose nothing."""
