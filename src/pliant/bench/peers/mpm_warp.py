"""The MPM substep in NVIDIA Warp on the CPU: four kernels on arrays that store every substep,
recorded on a wp.Tape.

Warp runs a CPU kernel on one thread. The stencil loops are not unrolled, which reduces the time of
the 3D adjoint to a third. Warp's adjoint then has no access to the sums of such a loop. Operations
that are nonlinear in these sums are therefore in a separate kernel (`move`) that reads them from
memory. The stress is P F^T = mu (F F^T - I) + lam log(J) I, as in mpm_loop.cpp.
"""

# mypy: disable-error-code="valid-type, index, name-defined"
# The annotations of a kernel are Warp's types, which mypy does not know.

import sys
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from pliant.bench.mpm_scene import MpmScene
from pliant.bench.peers.mpm_run import MpmRun, run_from_folder, run_in_child
from pliant.core import InputError


def run_with_warp(scene: MpmScene, *, threads: int = 1, repeats: int = 3) -> MpmRun:
    """Run the scene with Warp on the CPU in float64, in its own process."""
    if threads != 1:
        raise InputError(f"Warp uses one thread on a CPU, not {threads}. Use threads=1.")
    return run_in_child(__name__, "warp", scene, threads=threads, repeats=repeats)


def peer(scene: MpmScene, threads: int, repeats: int) -> MpmRun:
    """Run the scene in this process."""
    import warp as wp

    wp.init()
    wp.set_device("cpu")
    wp.set_module_options({"max_unroll": 1})
    state = _arrays(wp, scene)
    step = _substep(wp, scene, state)

    def forward(keep: bool) -> Any:
        with wp.Tape() if keep else nullcontext() as tape:
            for s in range(scene.substeps):
                step(s, s + 1) if keep else step(0, 0)
        return tape

    seconds: list[tuple[float, float, float]] = []
    seed: Any = wp.array(scene.weights, dtype=state.x[-1].dtype)
    for _ in range(repeats + 1):
        _start(state, scene)
        in_place, _ = _time(lambda: forward(False))
        _start(state, scene)
        kept, tape = _time(lambda: forward(True))
        back, _ = _time(lambda: tape.backward(grads={state.x[-1]: seed}))  # noqa: B023
        seconds.append((in_place, kept, back))
        gradient = state.v[0].grad.numpy().copy()
        tape.zero()  # a tape knows which adjoints to clear only after its backward run
    in_place, kept, back = np.array(seconds[1:]).T
    positions = state.x[-1].numpy()
    return MpmRun(
        name=f"Warp {wp.__version__}",
        threads=threads,
        positions=positions,
        loss=float(np.sum(scene.weights * positions)),
        gradient=gradient,
        in_place=in_place,
        forward=kept,
        backward=back,
    )


def _arrays(wp: Any, scene: MpmScene) -> SimpleNamespace:
    """Return lists with an array for each state or substep, and the constants of each particle."""
    n, dim = scene.x.shape
    vector, matrix = wp.types.vector(dim, wp.float64), wp.types.matrix((dim, dim), wp.float64)
    nodes = tuple(scene.shape.tolist())
    many = lambda count, shape, kind: [
        wp.zeros(shape, dtype=kind, requires_grad=True) for _ in range(count)
    ]
    return SimpleNamespace(
        x=many(scene.substeps + 1, n, vector),
        v=many(scene.substeps + 1, n, vector),
        C=many(scene.substeps + 1, n, matrix),
        F=many(scene.substeps + 1, n, matrix),
        momentum=many(scene.substeps, nodes, vector),
        node_mass=many(scene.substeps, nodes, wp.float64),
        velocity=many(scene.substeps, nodes, vector),
        constants=[
            wp.array(a, dtype=wp.float64) for a in (scene.mass, scene.volume, scene.mu, scene.lam)
        ],
    )


def _start(state: SimpleNamespace, scene: MpmScene) -> None:
    """Copy the particles of the scene to the first state."""
    for arrays, values in (
        (state.x, scene.x),
        (state.v, scene.v),
        (state.C, scene.C),
        (state.F, scene.F),
    ):
        arrays[0].assign(values)


def _substep(wp: Any, scene: MpmScene, state: SimpleNamespace) -> Callable[[int, int], None]:
    """Return step(s, then), which computes one substep from state s to state `then`."""
    scatter, sweep, gather, move = _kernels(wp, scene)
    n, nodes = len(scene.x), tuple(scene.shape.tolist())

    def step(s: int, then: int) -> None:
        momentum, mass, velocity = state.momentum[s], state.node_mass[s], state.velocity[s]
        momentum.zero_()
        mass.zero_()
        wp.launch(
            scatter,
            n,
            inputs=[state.x[s], state.v[s], state.C[s], state.F[s], *state.constants],
            outputs=[momentum, mass],
        )
        wp.launch(sweep, nodes, inputs=[momentum, mass], outputs=[velocity])
        wp.launch(gather, n, inputs=[state.x[s], velocity], outputs=[state.v[then], state.C[then]])
        wp.launch(
            move,
            n,
            inputs=[state.x[s], state.F[s], state.v[then], state.C[then]],
            outputs=[state.x[then], state.F[then]],
        )

    return step


def _kernels(wp: Any, scene: MpmScene) -> tuple[Any, Any, Any, Any]:
    """Return the kernels (scatter, sweep, gather, move), compiled for the scene's dimension."""
    dim = scene.dim
    vector, matrix = wp.types.vector(dim, wp.float64), wp.types.matrix((dim, dim), wp.float64)
    three_rows = wp.types.matrix((3, dim), wp.float64)
    vectors, matrices, scalars = (
        wp.array(dtype=vector),
        wp.array(dtype=matrix),
        wp.array(dtype=wp.float64),
    )
    node_vectors, node_scalars = (
        wp.array(dtype=vector, ndim=dim),
        wp.array(dtype=wp.float64, ndim=dim),
    )
    number = lambda value: wp.constant(wp.float64(value))
    zero, half, three_quarters, three_halves, two = map(number, (0.0, 0.5, 0.75, 1.5, 2.0))
    h, per_cell, tau, floor = (
        number(scene.cell),
        number(1 / scene.cell),
        number(scene.tau),
        number(scene.floor),
    )
    affine = number(4 / scene.cell**2)
    stress_scale = number(-scene.tau * 4 / scene.cell**2)
    origin = wp.constant(wp.types.vector(3, wp.int32)(*scene.origin.tolist(), *[0] * (3 - dim)))
    fall = wp.constant(vector(*(scene.tau * scene.gravity).tolist()))
    ones = wp.constant(vector(*[1.0] * dim))
    last, slide = wp.constant(dim - 1), wp.constant(vector(*[1.0] * (dim - 1), 0.0))

    @wp.func
    def spline(f: vector) -> three_rows:
        l = three_halves * ones - f
        c = f - ones
        r = f - half * ones
        return wp.matrix_from_rows(
            half * wp.cw_mul(l, l), three_quarters * ones - wp.cw_mul(c, c), half * wp.cw_mul(r, r)
        )

    @wp.func
    def offsets(f: vector) -> three_rows:
        return wp.matrix_from_rows(-h * f, h * (ones - f), h * (two * ones - f))

    @wp.func
    def first(x: vector) -> vector:
        base = vector()
        for a in range(dim):
            base[a] = wp.floor(x[a] * per_cell - half)
        return base

    @wp.kernel
    def scatter(
        x: vectors,
        v: vectors,
        C: matrices,
        F: matrices,
        mass: scalars,
        volume: scalars,
        mu: scalars,
        lam: scalars,
        momentum: node_vectors,
        node_mass: node_scalars,
    ) -> None:
        p = wp.tid()
        base = first(x[p])
        f = x[p] * per_cell - base
        w = spline(f)
        d = offsets(f)
        eye = wp.identity(n=dim, dtype=wp.float64)
        K = mu[p] * (F[p] * wp.transpose(F[p]) - eye) + lam[p] * wp.log(wp.determinant(F[p])) * eye
        G = stress_scale * volume[p] * K + mass[p] * C[p]
        column = wp.transpose(G)
        q = mass[p] * v[p]
        a = int(base[0]) - origin[0]
        b = int(base[1]) - origin[1]
        if wp.static(dim == 2):
            for i in range(3):
                q_i = q + d[i, 0] * column[0]
                for j in range(3):
                    weight = w[i, 0] * w[j, 1]
                    wp.atomic_add(momentum, a + i, b + j, weight * (q_i + d[j, 1] * column[1]))
                    wp.atomic_add(node_mass, a + i, b + j, weight * mass[p])
        else:
            c = int(base[2]) - origin[2]
            for i in range(3):
                q_i = q + d[i, 0] * column[0]
                for j in range(3):
                    w_ij = w[i, 0] * w[j, 1]
                    q_ij = q_i + d[j, 1] * column[1]
                    for k in range(3):
                        weight = w_ij * w[k, 2]
                        wp.atomic_add(
                            momentum, a + i, b + j, c + k, weight * (q_ij + d[k, 2] * column[2])
                        )
                        wp.atomic_add(node_mass, a + i, b + j, c + k, weight * mass[p])

    @wp.func
    def node_velocity(p: vector, m: wp.float64, height: int) -> vector:
        """Return the velocity of a node after gravity and contact with the floor."""
        u = vector()
        if m > zero:
            u = p / m + fall
            if wp.float64(height + origin[last]) * h <= floor and u[last] < zero:
                u = wp.cw_mul(u, slide)  # u[last] = 0 would let the adjoint pass
        return u

    @wp.kernel
    def sweep(momentum: node_vectors, node_mass: node_scalars, velocity: node_vectors) -> None:
        if wp.static(dim == 2):
            i, j = wp.tid()
            velocity[i, j] = node_velocity(momentum[i, j], node_mass[i, j], j)
        else:
            i, j, k = wp.tid()
            velocity[i, j, k] = node_velocity(momentum[i, j, k], node_mass[i, j, k], k)

    @wp.kernel
    def gather(x: vectors, velocity: node_vectors, v_next: vectors, C_next: matrices) -> None:
        p = wp.tid()
        base = first(x[p])
        f = x[p] * per_cell - base
        w = spline(f)
        d = offsets(f)
        a = int(base[0]) - origin[0]
        b = int(base[1]) - origin[1]
        u = vector()
        B = matrix()
        if wp.static(dim == 2):
            for i in range(3):
                for j in range(3):
                    away = vector(d[i, 0], d[j, 1])
                    wv = w[i, 0] * w[j, 1] * velocity[a + i, b + j]
                    u += wv
                    B += wp.outer(wv, away)
        else:
            c = int(base[2]) - origin[2]
            for i in range(3):
                for j in range(3):
                    for k in range(3):
                        away = vector(d[i, 0], d[j, 1], d[k, 2])
                        wv = w[i, 0] * w[j, 1] * w[k, 2] * velocity[a + i, b + j, c + k]
                        u += wv
                        B += wp.outer(wv, away)
        v_next[p] = u
        C_next[p] = affine * B

    @wp.kernel
    def move(
        x: vectors,
        F: matrices,
        v_next: vectors,
        C_next: matrices,
        x_next: vectors,
        F_next: matrices,
    ) -> None:
        p = wp.tid()
        F_old = F[p]
        x_next[p] = x[p] + tau * v_next[p]
        F_next[p] = F_old + tau * (C_next[p] * F_old)

    return scatter, sweep, gather, move


def _time(work: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = work()
    return perf_counter() - start, result


if __name__ == "__main__":
    run_from_folder(peer, sys.argv[1:])
