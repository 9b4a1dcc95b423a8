"""Pliant: describe a soft robot once, then simulate it, differentiate it and plan its motion. SI
units everywhere."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pliant import environment as _environment  # noqa: F401  (checked before Numba is imported)

if TYPE_CHECKING:
    from pliant.public import *  # noqa: F403
    from pliant.public import __all__ as __all__

__version__ = "0.2.0"

# users of gymnasium expect that an import registers environments; None blocks an import
if sys.modules.get("gymnasium") is not None:
    import_module("pliant.gymnasium")


def __getattr__(name: str) -> Any:
    """Load modules and public names when they are first used: `import pliant` itself is quick."""
    from importlib.util import find_spec

    if not name.startswith("__") and find_spec(f"pliant.{name}") is not None:
        return import_module(f"pliant.{name}")
    public = vars(import_module("pliant.public")) if name == "__all__" or name[:2] != "__" else {}
    if name not in public:
        raise AttributeError(f"module 'pliant' has no attribute '{name}'")
    globals()[name] = public[name]  # the next use does not come here
    return public[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
