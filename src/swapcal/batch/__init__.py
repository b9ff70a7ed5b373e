"""Online to batch: mixtures of frozen forecasters, and the table model built on them."""

from swapcal.batch.history import History, stratified
from swapcal.batch.mixture import Issued, Mixture, Snapshot
from swapcal.batch.recorder import Recorder

Stream = Recorder
"""An earlier name of `Recorder`."""

__all__ = ["History", "Issued", "Mixture", "Recorder", "Snapshot", "Stream", "stratified"]
