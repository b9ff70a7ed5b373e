"""Compiled functions on arrays; they import nothing from the other rooms."""
