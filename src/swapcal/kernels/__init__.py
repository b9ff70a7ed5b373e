"""Compiled functions on plain arrays; nothing here knows about the rest of the package."""
