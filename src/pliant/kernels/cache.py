"""Where compiled code is kept: a folder named after all of its sources.

Numba compiles a cached function anew when the function's own file changes, but not when a function
that it calls in another file does; without this, an update of one law would leave the old one
inside the loops that call it.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import config as _config

settings: Any = _config  # its options are made at run time


def digest(root: Path) -> str:
    """Twelve digits that change with any file below `root` that holds compiled functions."""
    texts = (
        (path.relative_to(root).as_posix().encode(), path.read_bytes())
        for path in sorted(root.rglob("*.py"))
    )
    return sha256(
        b"".join(name + text for name, text in texts if b"@njit" in text or b"@intrinsic" in text)
    ).hexdigest()[:12]


def keep_compiled_code(root: Path) -> None:
    """Point Numba's cache to the folder of these sources, below NUMBA_CACHE_DIR where that is set;
    where it cannot be written, Numba chooses a place of its own."""
    base = Path(
        settings.CACHE_DIR
        or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pliant"
    )
    folder = base / f"kernels-{digest(root)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        settings.CACHE_DIR = str(folder)
