"""Pictures of what the nouns found: plain data in, matplotlib axes out.

`Audit.plot`, `Live.plot`, `Monitor.plot` and `Certificate.plot` call these. matplotlib is the extra ``plot`` and is
imported when something is drawn. Every function draws on `ax`, or on axes of a new figure, and returns them. The
colours are Okabe and Ito's, which the colour-blind tell apart; no colour is the only sign of anything.
"""

from swapcal.plots.certificate import certificate
from swapcal.plots.evidence import evidence
from swapcal.plots.groups import groups
from swapcal.plots.reliability import reliability
from swapcal.plots.timeline import rates, score

__all__ = ["certificate", "evidence", "groups", "rates", "reliability", "score"]
