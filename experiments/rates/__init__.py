"""Measuring the rates of the theorems: what to run, how to measure it, and how to show it."""
