"""The MPM substep in Taichi: three kernels on fields that store every substep, and their adjoints
by Taichi's automatic differentiation.

The backward run calls `kernel.grad` in reverse order, like a Tape. The stencil loops are unrolled
(`ti.static`), because run-time loops gave wrong gradients without an error. Products shared between
nodes are computed outside the loops. This does not change the speed, but reduces the compilation
of the 3D adjoints from four minutes to less than one. The stress is
P F^T = mu (F F^T - I) + lam log(J) I, as in mpm_loop.cpp.
"""

# mypy: disable-error-code="valid-type, name-defined, no-untyped-def"
# The annotations of a kernel are Taichi's types, which mypy does not know. Taichi accepts no
# annotation of a kernel that returns nothing.

import sys
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from pliant.bench.mpm_scene import MpmScene
from pliant.bench.peers.mpm_run import MpmRun, run_from_folder, run_in_child


def run_with_taichi(scene: MpmScene, *, threads: int = 1, repeats: int = 3) -> MpmRun:
    """Run the scene with Taichi on the CPU in float64, in its own process."""
    return run_in_child(__name__, "taichi", scene, threads=threads, repeats=repeats)


def peer(scene: MpmScene, threads: int, repeats: int) -> MpmRun:
    """Run the scene in this process."""
    import taichi as ti

    ti.init(arch=ti.cpu, default_fp=ti.f64, cpu_max_num_threads=threads, log_level=ti.ERROR)
    state = _fields(ti, scene)
    clear, scatter, sweep, gather = _kernels(ti, scene, state)
    put = _put(ti)
    steps = range(scene.substeps)

    def forward(keep: bool) -> None:
        for s in steps:
            now, then = (s, s + 1) if keep else (0, 0)
            clear(now)
            scatter(now)
            sweep(now)
            gather(now, then)
        ti.sync()

    def backward() -> None:
        for s in reversed(steps):
            gather.grad(s, s + 1)
            sweep.grad(s)
            scatter.grad(s)
        ti.sync()

    def start() -> None:
        for field, values in (
            (state.x, scene.x),
            (state.v, scene.v),
            (state.C, scene.C),
            (state.F, scene.F),
        ):
            put(field, 0, values.reshape(len(values), -1))

    seconds = []
    for _ in range(repeats + 1):
        start()
        in_place = _time(ti, lambda: forward(False))
        start()
        kept = _time(ti, lambda: forward(True))
        ti.ad.clear_all_gradients()
        put(state.x.grad, scene.substeps, scene.weights)
        seconds.append((in_place, kept, _time(ti, backward)))
    positions, gradient = state.x.to_numpy()[-1], state.v.grad.to_numpy()[0]
    in_place, kept, back = np.array(seconds[1:]).T
    version = ".".join(map(str, ti.__version__))
    return MpmRun(
        name=f"Taichi {version}",
        threads=threads,
        positions=positions,
        loss=float(np.sum(scene.weights * positions)),
        gradient=gradient,
        in_place=in_place,
        forward=kept,
        backward=back,
    )


def _fields(ti: Any, scene: MpmScene) -> SimpleNamespace:
    """Return fields of particles (substeps + 1, n), of nodes (substeps, *shape) and of the
    constants of each particle (n,)."""
    n, dim = scene.x.shape
    particles, nodes = (scene.substeps + 1, n), (scene.substeps, *scene.shape.tolist())
    vector = lambda shape: ti.Vector.field(dim, ti.f64, shape=shape, needs_grad=True)
    matrix = lambda: ti.Matrix.field(dim, dim, ti.f64, shape=particles, needs_grad=True)
    constant = lambda: ti.field(ti.f64, shape=n)
    state = SimpleNamespace(
        x=vector(particles),
        v=vector(particles),
        C=matrix(),
        F=matrix(),
        momentum=vector(nodes),
        node_mass=ti.field(ti.f64, shape=nodes, needs_grad=True),
        velocity=vector(nodes),
        mass=constant(),
        volume=constant(),
        mu=constant(),
        lam=constant(),
    )
    for name in ("mass", "volume", "mu", "lam"):
        getattr(state, name).from_numpy(getattr(scene, name))
    return state


def _kernels(ti: Any, scene: MpmScene, state: SimpleNamespace) -> tuple[Any, Any, Any, Any]:
    """Return the kernels (clear, scatter, sweep, gather), compiled for the scene's dimension."""
    x, v, C, F = state.x, state.v, state.C, state.F
    momentum, node_mass, velocity = state.momentum, state.node_mass, state.velocity
    mass, volume, mu, lam = state.mass, state.volume, state.mu, state.lam
    n, dim = scene.x.shape
    h, tau, floor, height = scene.cell, scene.tau, scene.floor, int(scene.origin[-1])
    affine = 4 / h**2
    shape = tuple(scene.shape.tolist())
    origin, gravity = (
        ti.Vector(scene.origin.tolist(), dt=ti.i32),
        ti.Vector(scene.gravity.tolist(), dt=ti.f64),
    )
    eye = ti.Matrix(np.eye(dim).tolist(), dt=ti.f64)

    @ti.kernel
    def clear(s: ti.i32):
        for I in ti.grouped(ti.ndrange(*shape)):
            momentum[s, I] = ti.Vector.zero(ti.f64, dim)
            node_mass[s, I] = 0.0

    @ti.kernel
    def scatter(s: ti.i32):
        for p in range(n):
            base = ti.floor(x[s, p] / h - 0.5, ti.i32)
            f = x[s, p] / h - base
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            E = F[s, p]
            K = mu[p] * (E @ E.transpose() - eye) + lam[p] * ti.log(E.determinant()) * eye
            G = -tau * affine * volume[p] * K + mass[p] * C[s, p]
            g = [
                [G[:, a] * ((i - f[a]) * h) for a in ti.static(range(dim))]
                for i in ti.static(range(3))
            ]
            q = mass[p] * v[s, p]
            for i, j in ti.static(ti.ndrange(3, 3)):
                w_ij = w[i][0] * w[j][1]
                q_ij = q + g[i][0] + g[j][1]
                if ti.static(dim == 2):
                    node = base - origin + ti.Vector([i, j])
                    momentum[s, node] += w_ij * q_ij
                    node_mass[s, node] += w_ij * mass[p]
                else:
                    for k in ti.static(range(3)):
                        node = base - origin + ti.Vector([i, j, k])
                        weight = w_ij * w[k][2]
                        momentum[s, node] += weight * (q_ij + g[k][2])
                        node_mass[s, node] += weight * mass[p]

    @ti.kernel
    def sweep(s: ti.i32):
        for I in ti.grouped(ti.ndrange(*shape)):
            if node_mass[s, I] > 0.0:
                u = momentum[s, I] / node_mass[s, I] + tau * gravity
                if (I[dim - 1] + height) * h <= floor and u[dim - 1] < 0.0:
                    u[dim - 1] = 0.0
                velocity[s, I] = u

    @ti.kernel
    def gather(s: ti.i32, then: ti.i32):
        for p in range(n):
            base = ti.floor(x[s, p] / h - 0.5, ti.i32)
            f = x[s, p] / h - base
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            d = [(i - f) * h for i in ti.static(range(3))]
            u = ti.Vector.zero(ti.f64, dim)
            B = ti.Matrix.zero(ti.f64, dim, dim)
            for i, j in ti.static(ti.ndrange(3, 3)):
                w_ij = w[i][0] * w[j][1]
                if ti.static(dim == 2):
                    a = w_ij * velocity[s, base - origin + ti.Vector([i, j])]
                    u += a
                    B += a.outer_product(ti.Vector([d[i][0], d[j][1]]))
                else:
                    c = [
                        w[k][2] * velocity[s, base - origin + ti.Vector([i, j, k])]
                        for k in ti.static(range(3))
                    ]
                    a = w_ij * (c[0] + c[1] + c[2])
                    b = w_ij * (c[0] * d[0][2] + c[1] * d[1][2] + c[2] * d[2][2])
                    u += a
                    B += ti.Matrix.cols([a * d[i][0], a * d[j][1], b])
            x[then, p] = x[s, p] + tau * u
            v[then, p] = u
            C[then, p] = affine * B
            F[then, p] = (eye + tau * affine * B) @ F[s, p]

    return clear, scatter, sweep, gather


def _put(ti: Any) -> Any:
    """Return the kernel put(field, s, values). It copies the rows of values (n, ...) to the vectors
    or matrices of substep s."""

    @ti.kernel
    def put(field: ti.template(), s: ti.i32, values: ti.types.ndarray()):
        for p in range(values.shape[0]):
            for i, j in ti.static(ti.ndrange(field.n, field.m)):
                if ti.static(field.ndim == 1):
                    field[s, p][i] = values[p, i]
                else:
                    field[s, p][i, j] = values[p, i * field.m + j]

    return put


def _time(ti: Any, work: Any) -> float:
    ti.sync()
    start = perf_counter()
    work()
    return perf_counter() - start


if __name__ == "__main__":
    run_from_folder(peer, sys.argv[1:])
