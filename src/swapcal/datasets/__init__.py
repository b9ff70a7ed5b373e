"""Streams to measure forecasters on, and the referee that plays them."""

from swapcal.datasets.duel import Part, play, played
from swapcal.datasets.synthetic import KINDS, Stream, prediction_groups

__all__ = ["KINDS", "Part", "Stream", "play", "played", "prediction_groups"]
