"""The array types, once."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]
Index = NDArray[np.int32]
