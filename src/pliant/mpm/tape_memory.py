"""Memory for the tapes of a model, which later steps use again."""

import weakref
from threading import Lock

import numpy as np

from pliant.core import Array

WASTE = 1.25  # largest size of a block over the size that is asked for


class BlockOwner:
    """The owner of blocks of memory, which are free when it is deleted."""


class TapeMemory:
    """Blocks of memory that have an owner each.

    A system takes longer to give and clear the pages of a new block than the loops take to write
    it, above all on virtual machines: a gradient of the walker took twice as long. A model keeps
    its free blocks; a copy of a model, also in another process, starts without any.
    """

    def __init__(self) -> None:
        self.free: list[Array] = []
        self.lock = Lock()

    def __reduce__(self) -> tuple[type, tuple]:
        return TapeMemory, ()

    def block(self, n_bytes: int, owner: BlockOwner) -> Array:
        """Return a block of at least `n_bytes` with any values, which belongs to `owner`."""
        with self.lock:
            block = self._free_block(n_bytes)
        if block is None:
            block = np.empty(n_bytes, np.uint8)
        weakref.finalize(owner, self.free.append, block).atexit = False
        return block

    def _free_block(self, n_bytes: int) -> Array | None:
        """Return the smallest free block that fits. If the similar ones are too small, one of them
        is deleted, so that boxes of changing sizes do not collect blocks."""
        similar = [
            k for k, one in enumerate(self.free) if n_bytes / WASTE <= len(one) <= WASTE * n_bytes
        ]
        if not similar:
            return None
        fitting = [k for k in similar if len(self.free[k]) >= n_bytes]
        block = self.free.pop(min(fitting or similar, key=lambda k: len(self.free[k])))
        return block if fitting else None
