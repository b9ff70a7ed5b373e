"""The array types, once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Index = NDArray[np.int32]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]
Places = NDArray[np.intp]
Spotted = NDArray[np.uint32]
