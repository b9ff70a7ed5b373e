"""Certifying: the certificate of a copy, beside the learning thread; with many levels it takes seconds."""

from typing import Any

from swapcal.service.ward import Ward


class Copy:
    """What a certificate needs of a ward; made on the learning thread, read on any other."""

    def __init__(self, ward: Ward) -> None:
        self.labels = ward.figures.labels
        self._engine = ward.live.engine()

    def certificate(self) -> dict[str, Any] | None:
        """Return the certificate, with errors and bounds as rates; None before the first outcome."""
        if not self.labels or self._engine is None:
            return None
        found = self._engine.certificate()
        names = ("psreg", "bound", "theorem")
        sums = {name: getattr(found, name) for name in names}
        rates = {name: None if total is None else (total / found.rounds) ** 0.5 for name, total in sums.items()}
        return {**found.as_dict(), "holds": found.holds(), "rates": rates}
