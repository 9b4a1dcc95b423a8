"""The matrices of the cells of a solid body."""

from dataclasses import dataclass

from pliant.bodies import stiffness_derivative
from pliant.bodies.assembly import Cells
from pliant.bodies.body import MaterialFields
from pliant.core import Array
from pliant.kernels.threads import run_kernel


@dataclass(frozen=True, kw_only=True, eq=False)
class SolidCells:
    """The cells of a solid body."""

    cells: Cells
    dim: int

    def cell_stiffness_and_derivative(
        self, q: Array, fields: MaterialFields, w: Array
    ) -> tuple[Array, Array]:
        """Return the elastic stiffness [N/m] of each cell and its derivative along w.

        Both have shape (n_cells, nodes dim, nodes dim).
        """
        K, T = run_kernel(
            stiffness_derivative.cell_stiffness_and_derivative,
            self.cells.weights.size,
            self.cells,
            fields.moduli,
            q,
            w,
            self.dim,
        )
        return self._flat(K), self._flat(T)

    def cell_viscous_matrices(self, q: Array, level: Array, moduli: Array) -> Array:
        """Return `viscous_jvp` as matrices (n_cells, nodes dim, nodes dim)."""
        return self._viscous(q, level, moduli, False)

    def cell_viscous_derivatives(self, q: Array, w: Array, moduli: Array) -> Array:
        """Return `viscous_derivative_jvp` as matrices (n_cells, nodes dim, nodes dim)."""
        return self._viscous(q, w, moduli, True)

    def _viscous(self, q: Array, level: Array, moduli: Array, with_stress: bool) -> Array:
        return self._flat(
            run_kernel(
                stiffness_derivative.cell_viscous_matrices,
                self.cells.weights.size,
                self.cells,
                moduli,
                q,
                level,
                with_stress,
                self.dim,
            )
        )

    def _flat(self, blocks: Array) -> Array:
        """Return matrices (n_cells, nodes dim, nodes dim) of blocks (n_cells, nodes, dim, nodes,
        dim)."""
        return blocks.reshape(len(blocks), *2 * (blocks.shape[1] * self.dim,))
