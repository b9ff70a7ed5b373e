"""`Learned`: labels at the moment they are learned, beside what had been forecast."""

from typing import NamedTuple

from swapcal.arrays import Array
from swapcal.live.ids import Id


class Learned(NamedTuple):
    """n labels in the order in which they were learned."""

    ids: list[Id]
    y: Array
    p: Array
    mean: Array
    experts: Array
    """(n, number of experts) what each expert had said, in the order of `Live.experts`"""
