"""Online to batch: mixtures of frozen forecasters, and the table model built on them."""

from swapcal.batch.mixture import History, IssuedRows, Mixture, Snapshot, SnapshotRun, stratified

Stream = SnapshotRun
"""An earlier name of `SnapshotRun`."""

__all__ = ["History", "IssuedRows", "Mixture", "Snapshot", "SnapshotRun", "Stream", "stratified"]
