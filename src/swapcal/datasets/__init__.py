"""Streams to measure forecasters on, and the referee that plays them."""

from swapcal.datasets.synthetic import KINDS, Part, Stream, play, played, prediction_groups

__all__ = ["KINDS", "Part", "Stream", "play", "played", "prediction_groups"]
