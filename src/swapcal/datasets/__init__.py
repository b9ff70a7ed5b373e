"""Streams and tables to measure forecasters on, and the loop that runs them."""

from swapcal.datasets.synthetic import KINDS, Part, Stream, judged_answers, play, played, prediction_groups

__all__ = ["KINDS", "Part", "Stream", "judged_answers", "play", "played", "prediction_groups"]
