"""How a page reads the arrays of a capture."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.inspection.capture import TYPES


def unpacked(data: dict[str, Any]) -> NDArray[Any]:
    raw = base64.b64decode(data["base64"], validate=True)
    return np.frombuffer(raw, dtype=TYPES[data["dtype"]]).reshape(data["shape"])
