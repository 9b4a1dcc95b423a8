"""Long outputs in few numbers: an orthonormal basis that grows only when a new sample is not represented to tolerance."""

import numpy as np

from pliant.core import Array


class Compression:
    """Vectors of R^N as coefficients of a growing orthonormal basis about the first one. Old coefficients stay as they are: in a direction
    that came later they are zero."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance  # of a column, beside the longest difference so far
        self.centre = np.zeros(0)  # (N,)
        self.basis = np.zeros((0, 0))  # (N, r)
        self.scale = 0.0

    @property
    def size(self) -> int:
        return self.basis.shape[1]

    def absorb(self, value: Array, columns: Array) -> Array:
        """(1 + d, r) the coefficients of a value (N,) and of columns (N, d) of differences, as many as the basis then has."""
        if not self.centre.size:
            self.centre, self.basis = value.copy(), np.zeros((value.size, 0))
        differences = np.column_stack([value - self.centre, columns])
        self.scale = max(self.scale, float(np.linalg.norm(differences, axis=0).max()))
        rows = []
        for column in differences.T:
            rest, row = column.copy(), np.zeros(self.size)
            for _ in range(2):  # twice is enough
                share = self.basis.T @ rest
                rest -= self.basis @ share
                row += share
            size = float(np.linalg.norm(rest))
            if size > self.tolerance * self.scale:
                self.basis = np.column_stack([self.basis, rest / size])
                row = np.append(row, size)
            rows.append(row)
        return np.array([np.pad(row, (0, self.size - len(row))) for row in rows])

    def expand(self, rows: Array) -> tuple[Array, Array]:
        """(value (N,), slope (N, d)) from coefficients (1 + d, r)."""
        basis = self.basis[:, : rows.shape[1]]
        return self.centre + basis @ rows[0], basis @ rows[1:].T
