"""Compression of long vectors: an orthonormal basis that grows if a new sample is not represented
to tolerance."""

import numpy as np

from pliant.core import Array, InputError, require_number
from pliant.kernels.deterministic_sums import dot, matvec, vecmat


class Compression:
    """Vectors of R^N as coefficients of a growing orthonormal basis, relative to the first vector.
    Old coefficients stay valid: they are zero for later basis vectors. Sums have a fixed order, so
    results do not depend on the number of threads. Raises InputError for an invalid tolerance."""

    def __init__(self, tolerance: float) -> None:
        if not 0.0 < require_number("The tolerance of the compression", tolerance, "-") < 0.1:
            raise InputError(
                f"The tolerance of the compression is {tolerance:g}. Give a number between 0 and "
                "0.1, such as 1e-6."
            )
        self.tolerance = float(tolerance)  # of a column, relative to the longest difference so far
        self.centre = np.zeros(0)  # (N,)
        self.basis = np.zeros((0, 0))  # (r, N)
        self.scale = 0.0

    @property
    def size(self) -> int:
        return len(self.basis)

    def add(self, value: Array, columns: Array) -> Array:
        """Return the coefficients (1 + d, r) of a value (N,) and of columns (N, d) of differences.
        The basis is extended if necessary."""
        if not self.centre.size:
            self.centre, self.basis = value.copy(), np.zeros((0, value.size))
        differences = np.vstack([value - self.centre, columns.T])
        self.scale = max(self.scale, *(float(np.sqrt(dot(row, row))) for row in differences))
        rows = []
        for column in differences:
            rest, row = column.copy(), np.zeros(self.size)
            for _ in range(2):  # the second pass removes the round-off of the first
                share = matvec(self.basis, rest)
                rest -= vecmat(share, self.basis)
                row += share
            size = float(np.sqrt(dot(rest, rest)))
            if size > self.tolerance * self.scale:
                self.basis = np.vstack([self.basis, rest / size])
                row = np.append(row, size)
            rows.append(row)
        return np.array([np.pad(row, (0, self.size - len(row))) for row in rows])

    def expand(self, rows: Array) -> tuple[Array, Array]:
        """Return the value (N,) and slope (N, d) of coefficients (1 + d, r)."""
        basis = self.basis[: rows.shape[1]]
        return self.centre + rows[0] @ basis, (rows[1:] @ basis).T
