"""The background grid of the material point method: particle bins, grid update, boundary conditions
and their adjoints.

Particles are binned by slabs of the grid along x. Slabs of one colour share no node, so threads
never write to the same node. The order of all sums, and so every bit, is independent of the number
of threads. A node has four numbers: momentum (then velocity) and mass. In 2D the third axis has one
layer.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads, njit, prange

from pliant.core import Array
from pliant.kernels import FUSED, axpy, inner

# [cells] along x: the least width for which slabs of one colour share no node; many slabs balance
# the load
SLAB_WIDTH = 2


class ParticleData(NamedTuple):
    """The constant data of the particles."""

    mass: Array  # (n,) [kg]
    volume: Array  # (n,) [m^3] at rest
    law: Array  # (n,)
    power: Array  # (n,)
    moduli: Array  # (n, 3) [Pa] mu, lam, bulk
    by_E: Array  # (n, 3) derivative of the moduli by E
    by_nu: Array  # (n, 3) derivative of the moduli by nu
    stress_row: Array  # (n,) the particle's row of the actuators' stress; -1 without actuator


class SubstepParameters(NamedTuple):
    """The parameters of a substep."""

    dim: int
    h: float  # [m] cell
    tau: float  # [s] substep
    viscosity: float  # [s] viscous moduli over elastic ones
    decay: float  # factor of mass damping on a velocity over a substep
    gx: float  # [m/s^2] gravity
    gy: float
    gz: float


class GridBox(NamedTuple):
    """The part of the infinite lattice that the grid's arrays cover: its first node (ox, oy, oz)
    and
    its sizes nx, ny, nz."""

    ox: int
    oy: int
    oz: int
    nx: int
    ny: int
    nz: int


class Bins(NamedTuple):
    """The particles of each slab, and the nodes within their support."""

    order: Array  # (n,) particle indices, slab after slab, the even slabs before the odd ones
    start: Array  # (n_slabs + 1,) first index of each slab in `order`
    # (2, n_threads + 1) of each colour, the index in `order` where each thread starts, at a slab
    cuts: Array
    # (nx, 4) of each plane of nodes: first and last y, first and last z in the particles' support;
    # first > last if there are none
    reach: Array


class BoundaryConditions(NamedTuple):
    """Boundary conditions on nodes of the box. Several conditions on a node act in sequence."""

    node: Array  # (n_nodes,) flat index in the box
    first: Array  # (n_nodes + 1,) first condition of each
    kind: Array  # (n_conditions,)
    normal: Array  # (n_conditions, 3)
    friction: Array  # (n_conditions,)
    owner: Array  # (n_conditions,) which contact it belongs to, -1 for a support


STICKY, SLIP, SEPARATE = 0, 1, 2  # the third with friction, which may be zero


# Small functions. They take numbers and tuples, or are short enough to be inlined: Numba counts
# references of arrays that it passes to a function that is not inlined


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def vector(a: Any, p: Any, dim: Any) -> Any:
    return (a[p, 0], a[p, 1], a[p, 2]) if dim == 3 else (a[p, 0], a[p, 1], 0.0)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def matrix(a: Any, p: Any, dim: Any, last: Any) -> Any:
    """Return row p as a 3 x 3 tuple; `last` is the out-of-plane entry."""
    if dim == 3:
        return (a[p, 0], a[p, 1], a[p, 2], a[p, 3], a[p, 4], a[p, 5], a[p, 6], a[p, 7], a[p, 8])
    return (a[p, 0], a[p, 1], 0.0, a[p, 2], a[p, 3], 0.0, 0.0, 0.0, last)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def put_vector(a: Any, p: Any, dim: Any, v: Any) -> Any:
    a[p, 0], a[p, 1] = v[0], v[1]
    if dim == 3:
        a[p, 2] = v[2]


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def put_matrix(a: Any, p: Any, dim: Any, A: Any) -> Any:
    if dim == 3:
        a[p, 0], a[p, 1], a[p, 2], a[p, 3], a[p, 4], a[p, 5], a[p, 6], a[p, 7], a[p, 8] = A
    else:
        a[p, 0], a[p, 1], a[p, 2], a[p, 3] = A[0], A[1], A[3], A[4]


@njit(error_model="numpy", cache=True)
def cell_position(x: Any, inv_h: Any) -> Any:
    """Return the lattice index of the first of three nodes, and the cell coordinate in [1/2,
    3/2]."""
    s = x * inv_h
    base = np.floor(s - 0.5)
    return np.int64(base), s - base


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def first_node(pos: Any, p: Any, box: Any, inv_h: Any, dim: Any) -> Any:
    """Return the flat index of a particle's first node, and its cell coordinates."""
    i, fx = cell_position(pos[p, 0], inv_h)
    j, fy = cell_position(pos[p, 1], inv_h)
    if dim == 2:
        return (i - box.ox) * box.ny + j - box.oy, (fx, fy, 0.0)
    k, fz = cell_position(pos[p, 2], inv_h)
    return ((i - box.ox) * box.ny + j - box.oy) * box.nz + k - box.oz, (fx, fy, fz)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def spline_weights(f: Any) -> Any:
    """Return the quadratic B-spline at the three nodes."""
    a, b, c = 1.5 - f, f - 1.0, f - 0.5
    return (0.5 * a * a, 0.75 - b * b, 0.5 * c * c)


def node_weights(points: Array, cell: float) -> sp.csr_matrix:
    """Return the weights (n, n_nodes) of points (n, dim) [m] at the nodes in their support."""
    n, dim = points.shape
    base = np.floor(points / cell - 0.5)
    axes = np.stack(spline_weights.py_func(points / cell - base), axis=-1)  # (n, dim, 3)
    nodes, weights = [], []
    for offset in product(range(3), repeat=dim):
        nodes.append(base + offset)
        weights.append(np.prod([axes[:, i, k] for i, k in enumerate(offset)], axis=0))
    _, node = np.unique(np.concatenate(nodes), axis=0, return_inverse=True)
    return sp.csr_matrix((np.concatenate(weights), (np.tile(np.arange(n), 3**dim), node.ravel())))


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def spline_slopes(f: Any) -> Any:
    """Return the derivatives of `spline_weights`."""
    return (f - 1.5, 2.0 - 2.0 * f, f - 0.5)


# Boundary conditions


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def apply_condition(kind: Any, friction: Any, n: Any, v: Any) -> Any:
    """Return the velocity v after a boundary condition with outward normal n."""
    if kind == STICKY:
        return (0.0, 0.0, 0.0)
    s = inner(v, n)
    if kind == SEPARATE and s >= 0.0:
        return v
    t = axpy(-s, n, v)
    if friction == 0.0 or kind == SLIP:
        return t
    size = np.sqrt(inner(t, t))
    left = size + friction * s  # Coulomb: friction times the normal impulse is lost
    return (0.0, 0.0, 0.0) if left <= 0.0 else axpy(left / size, t, (0.0, 0.0, 0.0))


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def apply_condition_vjp(kind: Any, friction: Any, n: Any, v: Any, bar: Any) -> Any:
    """Return the gradient of bar . apply_condition(v) by v and by the friction."""
    if kind == STICKY:
        return (0.0, 0.0, 0.0), 0.0
    s = inner(v, n)
    if kind == SEPARATE and s >= 0.0:
        return bar, 0.0
    flat = axpy(-inner(bar, n), n, bar)
    if kind == SLIP:
        return flat, 0.0
    t = axpy(-s, n, v)
    size = np.sqrt(inner(t, t))
    left = size + friction * s
    if left <= 0.0 or size == 0.0:
        return (flat, 0.0) if friction == 0.0 else ((0.0, 0.0, 0.0), 0.0)
    direction = (t[0] / size, t[1] / size, t[2] / size)
    along = inner(flat, direction)
    out = axpy(
        left / size,
        axpy(-along, direction, flat),
        (along * direction[0], along * direction[1], along * direction[2]),
    )
    return axpy(friction * along, n, out), s * along


# Sorting


def empty_bins(n: int, box: GridBox) -> Bins:
    """Return empty bins of n particles in a box, for the current number of threads."""
    slabs = -(-box.nx // SLAB_WIDTH)
    return Bins(
        np.zeros(n, np.int64),
        np.zeros(slabs + 1, np.int64),
        np.zeros((2, get_num_threads() + 1), np.int64),
        np.zeros((box.nx, 4), np.int64),
    )


@njit(error_model="numpy", cache=True, parallel=True)
def sort_particles(pos: Any, box: Any, dim: Any, inv_h: Any, bins: Any) -> Any:
    """Fill the bins. Return False if a node of a particle is outside the box. Each thread takes a
    contiguous block of particles, so the order within a slab is kept."""
    n, nx, slabs, threads = len(pos), box.nx, len(bins.start) - 1, bins.cuts.shape[1] - 1
    count, reach, lost = (
        np.zeros((threads, slabs), np.int64),
        np.empty((threads, nx, 4), np.int64),
        np.zeros(threads, np.int64),
    )
    for g in prange(threads):
        _reset_reach(reach[g], box)
        for p in range(g * n // threads, (g + 1) * n // threads):
            i, j, k = _cell(pos, p, box, dim, inv_h)
            if i < 0:
                lost[g] = 1
                break
            r = reach[g, i]
            r[0], r[1], r[2], r[3] = min(r[0], j), max(r[1], j), min(r[2], k), max(r[3], k)
            count[g, _slab_index(i, slabs)] += 1
    if lost.sum() > 0:
        return False
    begin = 0
    for s in range(slabs):
        bins.start[s] = begin
        for g in range(threads):
            begin, count[g, s] = begin + count[g, s], begin
    bins.start[slabs] = n
    for g in prange(threads):
        _fill_order(
            bins.order, count[g], pos, g * n // threads, (g + 1) * n // threads, box.ox, inv_h
        )
    _reset_reach(bins.reach, box)
    for g in range(threads):
        for i in range(nx):
            a, b = bins.reach[i], reach[g, i]
            a[0], a[1], a[2], a[3] = (
                min(a[0], b[0]),
                max(a[1], b[1]),
                min(a[2], b[2]),
                max(a[3], b[3]),
            )
    _widen(bins.reach, 2 if dim == 3 else 0)
    _balance_threads(bins)
    return True


@njit(error_model="numpy", cache=True)
def _fill_order(
    order: Any, count: Any, pos: Any, first: Any, last: Any, ox: Any, inv_h: Any
) -> Any:
    """Write the particles from first to last into `order`, each at the next index of its slab. This
    is a function, because Numba removes a loop that writes only to a field of a tuple."""
    for p in range(first, last):
        s = _slab_index(cell_position(pos[p, 0], inv_h)[0] - ox, len(count))
        order[count[s]] = p
        count[s] += 1


@njit(error_model="numpy", cache=True)
def _reset_reach(reach: Any, box: Any) -> Any:
    for i in range(len(reach)):
        reach[i, 0], reach[i, 1], reach[i, 2], reach[i, 3] = box.ny, -1, box.nz, -1


@njit(error_model="numpy", cache=True)
def _cell(pos: Any, p: Any, box: Any, dim: Any, inv_h: Any) -> Any:
    """Return the indices of a particle's first node in the box; the first is -1 if a node is
    outside."""
    x, y, z = pos[p, 0], pos[p, 1], pos[p, 2] if dim == 3 else 0.0
    if not (abs(x) < 1e9 and abs(y) < 1e9 and abs(z) < 1e9):
        return -1, 0, 0
    i, j, k = (
        cell_position(x, inv_h)[0] - box.ox,
        cell_position(y, inv_h)[0] - box.oy,
        cell_position(z, inv_h)[0] - box.oz if dim == 3 else 0,
    )
    out = j < 0 or k < 0 or i + 2 >= box.nx or j + 2 >= box.ny or (dim == 3 and k + 2 >= box.nz)
    return -1 if out else i, j, k


@njit(error_model="numpy", cache=True)
def _slab_index(i: Any, slabs: Any) -> Any:
    """Return the index of the slab of cell i; even slabs come first."""
    s = i // SLAB_WIDTH
    return s // 2 + (s % 2) * ((slabs + 1) // 2)


@njit(error_model="numpy", cache=True)
def _balance_threads(bins: Any) -> Any:
    """Divide the slabs of each colour so that all threads have about the same number of
    particles."""
    slabs, threads = len(bins.start) - 1, bins.cuts.shape[1] - 1
    even = (slabs + 1) // 2
    for colour in range(2):
        first, last = (0, even) if colour == 0 else (even, slabs)
        begin, end, thread = bins.start[first], bins.start[last], 1
        bins.cuts[colour, :] = end
        bins.cuts[colour, 0] = begin
        for s in range(first, last):
            middle = bins.start[s] + bins.start[s + 1] - 2 * begin  # twice
            while thread < threads and threads * middle >= 2 * thread * (end - begin):
                bins.cuts[colour, thread] = bins.start[s]
                thread += 1


@njit(error_model="numpy", cache=True)
def _widen(reach: Any, deep: Any) -> Any:
    """Extend the range from the particles' first nodes to all nodes in their support: three along
    each axis."""
    for i in range(len(reach) - 1, -1, -1):
        lo, hi, front, back = reach[i, 0], reach[i, 1], reach[i, 2], reach[i, 3]
        for back_by in range(1, 3):
            if i >= back_by:
                lo, hi = min(lo, reach[i - back_by, 0]), max(hi, reach[i - back_by, 1])
                front, back = min(front, reach[i - back_by, 2]), max(back, reach[i - back_by, 3])
        reach[i, 0], reach[i, 1], reach[i, 2], reach[i, 3] = (
            lo,
            hi if hi < 0 else hi + 2,
            front,
            back if back < 0 else back + deep,
        )


@njit(error_model="numpy", cache=True, parallel=True)
def clear(grid: Any, box: Any, bins: Any) -> Any:
    """Set the nodes in the particles' support to zero."""
    ny, nz = box.ny, box.nz
    for i in prange(len(bins.reach)):
        for j in range(bins.reach[i, 0], bins.reach[i, 1] + 1):
            first = (i * ny + j) * nz
            grid[first + bins.reach[i, 2] : first + bins.reach[i, 3] + 1] = 0.0


# Grid update


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FUSED)
def update_grid(
    parameters: Any, box: Any, bins: Any, conditions: Any, grid: Any, before: Any
) -> Any:
    """Compute node velocities with gravity and damping [Spielberg2021, A4], then apply the boundary
    conditions. `before` (n_conditioned_nodes, 3) receives the velocities before them."""
    ny, nz, tau, decay = box.ny, box.nz, parameters.tau, parameters.decay
    for i in prange(len(bins.reach)):
        for j in range(bins.reach[i, 0], bins.reach[i, 1] + 1):
            first = (i * ny + j) * nz
            for r in range(first + bins.reach[i, 2], first + bins.reach[i, 3] + 1):
                m = grid[r, 3]
                if m > 0.0:
                    grid[r, 0] = decay * (grid[r, 0] / m + tau * parameters.gx)
                    grid[r, 1] = decay * (grid[r, 1] / m + tau * parameters.gy)
                    grid[r, 2] = decay * (grid[r, 2] / m + tau * parameters.gz)
    for a in prange(len(conditions.node)):
        r = conditions.node[a]
        if in_reach(bins.reach, r, ny, nz):
            v = vector(grid, r, 3)
            put_vector(before, a, 3, v)
            for c in range(conditions.first[a], conditions.first[a + 1]):
                v = apply_condition(
                    conditions.kind[c], conditions.friction[c], vector(conditions.normal, c, 3), v
                )
            put_vector(grid, r, 3, v)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def in_reach(reach: Any, r: Any, ny: Any, nz: Any) -> Any:
    i, j, k = r // (ny * nz), r // nz % ny, r % nz
    return reach[i, 0] <= j <= reach[i, 1] and reach[i, 2] <= k <= reach[i, 3]


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def apply_conditions_vjp(
    conditions: Any, a: Any, grid: Any, before: Any, grid_bar: Any, friction_bar: Any
) -> Any:
    """Apply the adjoint of the boundary conditions of node a. The earlier conditions are applied
    again to get the velocity before each."""
    r, first = conditions.node[a], conditions.first[a]
    v, bar = vector(before, a, 3), vector(grid_bar, r, 3)
    for back in range(conditions.first[a + 1] - first):
        c = conditions.first[a + 1] - 1 - back
        u = v
        for e in range(first, c):
            u = apply_condition(
                conditions.kind[e], conditions.friction[e], vector(conditions.normal, e, 3), u
            )
        bar, share = apply_condition_vjp(
            conditions.kind[c], conditions.friction[c], vector(conditions.normal, c, 3), u, bar
        )
        friction_bar[c] += share
    put_vector(grid_bar, r, 3, bar)
    exchange_velocities(conditions, a, grid, before)


@njit(error_model="numpy", cache=True, fastmath=FUSED)
def exchange_velocities(conditions: Any, a: Any, grid: Any, before: Any) -> Any:
    """Exchange the velocities of node a in the grid and before its boundary conditions."""
    r = conditions.node[a]
    v = vector(grid, r, 3)
    put_vector(grid, r, 3, vector(before, a, 3))
    put_vector(before, a, 3, v)


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FUSED)
def update_grid_vjp(
    parameters: Any,
    box: Any,
    bins: Any,
    conditions: Any,
    grid: Any,
    before: Any,
    grid_bar: Any,
    friction_bar: Any,
    plane_bar: Any,
) -> Any:
    """Replace the gradient by node velocities by that of momenta and masses, in place.

    It adds to friction_bar (n_conditions,) and to plane_bar (nx, 4), the part of each plane of
    nodes in the gradients by the velocity that gravity gives in a substep (3) and by the logarithm
    of the decay. The grid keeps its velocities."""
    ny, nz, reach, node = box.ny, box.nz, bins.reach, conditions.node
    for a in prange(len(node)):
        if in_reach(reach, node[a], ny, nz):
            apply_conditions_vjp(conditions, a, grid, before, grid_bar, friction_bar)
    for i in prange(len(reach)):
        by_x = by_y = by_z = by_decay = 0.0
        for j in range(reach[i, 0], reach[i, 1] + 1):
            first = (i * ny + j) * nz
            for r in range(first + reach[i, 2], first + reach[i, 3] + 1):
                m = grid[r, 3]
                if m > 0.0:
                    bar, s = vector(grid_bar, r, 3), parameters.decay / m
                    by_x += bar[0]
                    by_y += bar[1]
                    by_z += bar[2]
                    by_decay += inner(vector(grid, r, 3), bar)
                    own = axpy(
                        1.0 / parameters.decay,
                        vector(grid, r, 3),
                        (
                            -parameters.tau * parameters.gx,
                            -parameters.tau * parameters.gy,
                            -parameters.tau * parameters.gz,
                        ),
                    )
                    put_vector(grid_bar, r, 3, (s * bar[0], s * bar[1], s * bar[2]))
                    grid_bar[r, 3] = -s * inner(own, bar)
        plane_bar[i, 0] += by_x
        plane_bar[i, 1] += by_y
        plane_bar[i, 2] += by_z
        plane_bar[i, 3] += by_decay
    for a in prange(len(node)):
        if in_reach(reach, node[a], ny, nz):
            exchange_velocities(conditions, a, grid, before)
