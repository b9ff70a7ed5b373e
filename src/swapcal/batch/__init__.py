"""Online to batch: mixtures of frozen forecasters, and the table model built on them."""

from swapcal.batch.mixture import History, Issued, Mixture, Recorder, Snapshot, stratified

Stream = Recorder
"""An earlier name of `Recorder`."""

__all__ = ["History", "Issued", "Mixture", "Recorder", "Snapshot", "Stream", "stratified"]
