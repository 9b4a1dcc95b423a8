"""The grid of the material point method: which nodes particles reach, how its nodes move, and what
walls do to them; with the adjoints.

Particles are binned by slabs of the grid along x. Slabs of one colour share no node, so that
threads never write to one place, and the order of all sums, and with it every bit, does not depend
on how many threads there are. A node of the grid is four numbers: momentum (then velocity) and
mass. In the plane the third axis has one layer.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads, njit, prange

from pliant.core import Array
from pliant.kernels import FAST, axpy, inner

# cells along x, as few as keep slabs of one colour from sharing a node: many slabs share work
# evenly
SLAB = 2


class Cloud(NamedTuple):
    """What the loops read of the particles; none of it changes over a run."""

    mass: Array  # (n,) [kg]
    volume: Array  # (n,) [m^3] at rest
    law: Array  # (n,)
    power: Array  # (n,)
    moduli: Array  # (n, 3) [Pa] mu, lam, bulk
    by_E: Array  # (n, 3) derivative of the moduli by E
    by_nu: Array  # (n, 3) derivative of the moduli by nu


class Rules(NamedTuple):
    """The numbers of a substep."""

    dim: int
    h: float  # [m] cell
    tau: float  # [s] substep
    viscosity: float  # [s] viscous moduli over elastic ones
    decay: float  # what mass damping leaves of a velocity over a substep
    gx: float  # [m/s^2] gravity
    gy: float
    gz: float


class Box(NamedTuple):
    """Where the grid's arrays lie: node (0, 0, 0) is node (ox, oy, oz) of the endless lattice; nx,
    ny, nz are their sizes."""

    ox: int
    oy: int
    oz: int
    nx: int
    ny: int
    nz: int


class Bins(NamedTuple):
    """Particles by slab, and the nodes that they reach."""

    order: Array  # (n,) particle indices, slab after slab, the even slabs before the odd ones
    start: Array  # (n_slabs + 1,) first place of each slab in `order`, in this order
    # (2, n_threads + 1) of each colour, where in `order` each thread begins, always at a slab
    cuts: Array
    # (nx, 4) of each plane of nodes: first and last y, first and last z that particles reach; first
    # > last for none
    reach: Array


class Walls(NamedTuple):
    """Boundary conditions on nodes of the box; a node may have several, which act in turn."""

    node: Array  # (n_nodes,) flat index in the box
    first: Array  # (n_nodes + 1,) first condition of each
    kind: Array  # (n_conditions,)
    normal: Array  # (n_conditions, 3)
    friction: Array  # (n_conditions,)
    owner: Array  # (n_conditions,) which contact it belongs to, -1 for a support


STICKY, SLIP, SEPARATE = 0, 1, 2  # the third with friction, which may be zero


# Small pieces. They take numbers and tuples; one that takes an array is short enough to vanish in
# its caller, for an array that is handed to a real function costs a count of its users


@njit(error_model="numpy", cache=True, fastmath=FAST)
def vector(a, p, dim):
    return (a[p, 0], a[p, 1], a[p, 2]) if dim == 3 else (a[p, 0], a[p, 1], 0.0)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def matrix(a, p, dim, last):
    """Row p as a 3 x 3 tuple; `last` is what stands out of plane."""
    if dim == 3:
        return (a[p, 0], a[p, 1], a[p, 2], a[p, 3], a[p, 4], a[p, 5], a[p, 6], a[p, 7], a[p, 8])
    return (a[p, 0], a[p, 1], 0.0, a[p, 2], a[p, 3], 0.0, 0.0, 0.0, last)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def put_vector(a, p, dim, v):
    a[p, 0], a[p, 1] = v[0], v[1]
    if dim == 3:
        a[p, 2] = v[2]


@njit(error_model="numpy", cache=True, fastmath=FAST)
def put_matrix(a, p, dim, A):
    if dim == 3:
        a[p, 0], a[p, 1], a[p, 2], a[p, 3], a[p, 4], a[p, 5], a[p, 6], a[p, 7], a[p, 8] = A
    else:
        a[p, 0], a[p, 1], a[p, 2], a[p, 3] = A[0], A[1], A[3], A[4]


@njit(error_model="numpy", cache=True)
def place(x, inv_h):
    """(lattice index of the first of three nodes, place within the cell from 1/2 to 3/2)."""
    s = x * inv_h
    base = np.floor(s - 0.5)
    return np.int64(base), s - base


@njit(error_model="numpy", cache=True, fastmath=FAST)
def first_node(pos, p, box, inv_h, dim):
    """(flat index of a particle's first node, its place within the cell along each axis)."""
    i, fx = place(pos[p, 0], inv_h)
    j, fy = place(pos[p, 1], inv_h)
    if dim == 2:
        return (i - box.ox) * box.ny + j - box.oy, (fx, fy, 0.0)
    k, fz = place(pos[p, 2], inv_h)
    return ((i - box.ox) * box.ny + j - box.oy) * box.nz + k - box.oz, (fx, fy, fz)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def shares(f):
    """The quadratic B-spline at the three nodes."""
    a, b, c = 1.5 - f, f - 1.0, f - 0.5
    return (0.5 * a * a, 0.75 - b * b, 0.5 * c * c)


def node_shares(points: Array, cell: float) -> sp.csr_matrix:
    """(n, n_nodes) the shares of points (n, dim) [m] in the nodes that they reach."""
    n, dim = points.shape
    base = np.floor(points / cell - 0.5)
    axes = np.stack(shares.py_func(points / cell - base), axis=-1)  # (n, dim, 3)
    nodes, weights = [], []
    for offset in product(range(3), repeat=dim):
        nodes.append(base + offset)
        weights.append(np.prod([axes[:, i, k] for i, k in enumerate(offset)], axis=0))
    _, node = np.unique(np.concatenate(nodes), axis=0, return_inverse=True)
    return sp.csr_matrix((np.concatenate(weights), (np.tile(np.arange(n), 3**dim), node.ravel())))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def slopes(f):
    """The derivatives of `shares`."""
    return (f - 1.5, 2.0 - 2.0 * f, f - 0.5)


# Walls


@njit(error_model="numpy", cache=True, fastmath=FAST)
def met(kind, friction, n, v):
    """The velocity that a wall leaves of v."""
    if kind == STICKY:
        return (0.0, 0.0, 0.0)
    s = inner(v, n)
    if kind == SEPARATE and s >= 0.0:
        return v
    t = axpy(-s, n, v)
    if friction == 0.0 or kind == SLIP:
        return t
    size = np.sqrt(inner(t, t))
    left = size + friction * s  # Coulomb: the wall takes friction times the normal impulse
    return (0.0, 0.0, 0.0) if left <= 0.0 else axpy(left / size, t, (0.0, 0.0, 0.0))


@njit(error_model="numpy", cache=True, fastmath=FAST)
def met_back(kind, friction, n, v, bar):
    """(the gradient by v, by the friction) of bar . met(v)."""
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
    way = (t[0] / size, t[1] / size, t[2] / size)
    along = inner(flat, way)
    out = axpy(
        left / size, axpy(-along, way, flat), (along * way[0], along * way[1], along * way[2])
    )
    return axpy(friction * along, n, out), s * along


# Sorting


def bins_for(n: int, box: Box) -> Bins:
    """Empty bins of n particles in a box, shared among as many threads as there are now."""
    slabs = -(-box.nx // SLAB)
    return Bins(
        np.zeros(n, np.int64),
        np.zeros(slabs + 1, np.int64),
        np.zeros((2, get_num_threads() + 1), np.int64),
        np.zeros((box.nx, 4), np.int64),
    )


@njit(error_model="numpy", cache=True, parallel=True)
def sort(pos, box, dim, inv_h, bins):
    """Fill the bins; False where a particle's nodes do not lie in the box. Threads share the
    particles one block after the other, so that within a slab they stay in their order."""
    n, nx, slabs, threads = len(pos), box.nx, len(bins.start) - 1, bins.cuts.shape[1] - 1
    count, reach, lost = (
        np.zeros((threads, slabs), np.int64),
        np.empty((threads, nx, 4), np.int64),
        np.zeros(threads, np.int64),
    )
    for g in prange(threads):
        _empty(reach[g], box)
        for p in range(g * n // threads, (g + 1) * n // threads):
            i, j, k = _cell(pos, p, box, dim, inv_h)
            if i < 0:
                lost[g] = 1
                break
            r = reach[g, i]
            r[0], r[1], r[2], r[3] = min(r[0], j), max(r[1], j), min(r[2], k), max(r[3], k)
            count[g, _rank(i, slabs)] += 1
    if lost.sum() > 0:
        return False
    begin = 0
    for s in range(slabs):
        bins.start[s] = begin
        for g in range(threads):
            begin, count[g, s] = begin + count[g, s], begin
    bins.start[slabs] = n
    for g in prange(threads):
        _line_up(bins.order, count[g], pos, g * n // threads, (g + 1) * n // threads, box.ox, inv_h)
    _empty(bins.reach, box)
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
    _share(bins)
    return True


@njit(error_model="numpy", cache=True)
def _line_up(order, count, pos, first, last, ox, inv_h):
    """Particles from first to last into `order`, each at the next place of its slab. A function,
    because Numba takes a loop that writes to a field of a tuple, and to nothing else, for one
    without effect."""
    for p in range(first, last):
        s = _rank(place(pos[p, 0], inv_h)[0] - ox, len(count))
        order[count[s]] = p
        count[s] += 1


@njit(error_model="numpy", cache=True)
def _empty(reach, box):
    for i in range(len(reach)):
        reach[i, 0], reach[i, 1], reach[i, 2], reach[i, 3] = box.ny, -1, box.nz, -1


@njit(error_model="numpy", cache=True)
def _cell(pos, p, box, dim, inv_h):
    """Where in the box a particle's first node is; the first number is -1 if not all its nodes are
    in there."""
    x, y, z = pos[p, 0], pos[p, 1], pos[p, 2] if dim == 3 else 0.0
    if not (abs(x) < 1e9 and abs(y) < 1e9 and abs(z) < 1e9):
        return -1, 0, 0
    i, j, k = (
        place(x, inv_h)[0] - box.ox,
        place(y, inv_h)[0] - box.oy,
        place(z, inv_h)[0] - box.oz if dim == 3 else 0,
    )
    out = j < 0 or k < 0 or i + 2 >= box.nx or j + 2 >= box.ny or (dim == 3 and k + 2 >= box.nz)
    return -1 if out else i, j, k


@njit(error_model="numpy", cache=True)
def _rank(i, slabs):
    """The place of the slab of cell i: even slabs first."""
    s = i // SLAB
    return s // 2 + (s % 2) * ((slabs + 1) // 2)


@njit(error_model="numpy", cache=True)
def _share(bins):
    """Cut each colour's slabs so that every thread has about as many particles."""
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
def _widen(reach, deep):
    """From the particles' first nodes to all that they touch: three planes, three lines, three
    nodes."""
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
def clear(grid, box, bins):
    """Zero the nodes that particles reach."""
    ny, nz = box.ny, box.nz
    for i in prange(len(bins.reach)):
        for j in range(bins.reach[i, 0], bins.reach[i, 1] + 1):
            first = (i * ny + j) * nz
            grid[first + bins.reach[i, 2] : first + bins.reach[i, 3] + 1] = 0.0


# The grid's own step


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def move_grid(rules, box, bins, walls, grid, before):
    """A4 with gravity and damping, then the walls; `before` (n_walls, 3) receives what the walls'
    nodes had."""
    ny, nz, tau, decay = box.ny, box.nz, rules.tau, rules.decay
    for i in prange(len(bins.reach)):
        for j in range(bins.reach[i, 0], bins.reach[i, 1] + 1):
            first = (i * ny + j) * nz
            for r in range(first + bins.reach[i, 2], first + bins.reach[i, 3] + 1):
                m = grid[r, 3]
                if m > 0.0:
                    grid[r, 0] = decay * (grid[r, 0] / m + tau * rules.gx)
                    grid[r, 1] = decay * (grid[r, 1] / m + tau * rules.gy)
                    grid[r, 2] = decay * (grid[r, 2] / m + tau * rules.gz)
    for a in prange(len(walls.node)):
        r = walls.node[a]
        if reached(bins.reach, r, ny, nz):
            v = vector(grid, r, 3)
            put_vector(before, a, 3, v)
            for c in range(walls.first[a], walls.first[a + 1]):
                v = met(walls.kind[c], walls.friction[c], vector(walls.normal, c, 3), v)
            put_vector(grid, r, 3, v)


@njit(error_model="numpy", cache=True, fastmath=FAST)
def reached(reach, r, ny, nz):
    i, j, k = r // (ny * nz), r // nz % ny, r % nz
    return reach[i, 0] <= j <= reach[i, 1] and reach[i, 2] <= k <= reach[i, 3]


@njit(error_model="numpy", cache=True, fastmath=FAST)
def wall_back(walls, a, grid, before, grid_bar, friction_bar):
    """The adjoint of what the walls did to node a; the conditions before each are applied again to
    know what it met."""
    r, first = walls.node[a], walls.first[a]
    v, bar = vector(before, a, 3), vector(grid_bar, r, 3)
    for back in range(walls.first[a + 1] - first):
        c = walls.first[a + 1] - 1 - back
        u = v
        for e in range(first, c):
            u = met(walls.kind[e], walls.friction[e], vector(walls.normal, e, 3), u)
        bar, share = met_back(walls.kind[c], walls.friction[c], vector(walls.normal, c, 3), u, bar)
        friction_bar[c] += share
    put_vector(grid, r, 3, v)
    put_vector(grid_bar, r, 3, bar)


@njit(error_model="numpy", cache=True, parallel=True, fastmath=FAST)
def move_grid_back(rules, box, bins, walls, grid, before, grid_bar, friction_bar):
    """From the gradient by the nodes' velocities: in place that by their momenta and masses;
    friction_bar (n_conditions,) is added to. The grid is left with the velocities before the
    walls."""
    ny, nz, reach, node = box.ny, box.nz, bins.reach, walls.node
    for a in prange(len(node)):
        if reached(reach, node[a], ny, nz):
            wall_back(walls, a, grid, before, grid_bar, friction_bar)
    for i in prange(len(reach)):
        for j in range(reach[i, 0], reach[i, 1] + 1):
            first = (i * ny + j) * nz
            for r in range(first + reach[i, 2], first + reach[i, 3] + 1):
                m = grid[r, 3]
                if m > 0.0:
                    bar, s = vector(grid_bar, r, 3), rules.decay / m
                    own = axpy(
                        1.0 / rules.decay,
                        vector(grid, r, 3),
                        (-rules.tau * rules.gx, -rules.tau * rules.gy, -rules.tau * rules.gz),
                    )
                    put_vector(grid_bar, r, 3, (s * bar[0], s * bar[1], s * bar[2]))
                    grid_bar[r, 3] = -s * inner(own, bar)
