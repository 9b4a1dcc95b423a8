"""gymnasium, imported when it is needed, and the spaces of environments."""

from typing import Any

import numpy as np

from pliant.core import MissingExtra


def import_gymnasium() -> Any:
    """Return the package gymnasium. Raises `MissingExtra` if it is not installed."""
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtra("Environments need gymnasium: pip install 'pliant[learn]'.") from error
    return gymnasium


def box(low: float, high: float, size: int, dtype: Any) -> Any:
    """Return the space of arrays (size,) between two numbers."""
    return import_gymnasium().spaces.Box(low, high, (size,), dtype=np.dtype(dtype).type)
