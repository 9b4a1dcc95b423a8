"""The walker of `pliant bench learning` in Taichi: the substeps, the friction, the network and the
loss in kernels, and their adjoints by Taichi's automatic differentiation.

The fields store the substeps of some control steps, a segment. With several segments, the state
before each is kept, and backward simulates the segment again. The rules for loops and the stress
are those of mpm_taichi.py.
"""

# mypy: disable-error-code="valid-type, name-defined, no-untyped-def"
# The annotations of a kernel are Taichi's types, which mypy does not know. Taichi accepts no
# annotation of a kernel that returns nothing.

from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from pliant.bench.peers.walker_run import WalkerRun, peak_gigabytes
from pliant.bench.walker_scene import (
    CHAMBERS,
    EFFORT,
    GRAVITY,
    GROUPS,
    SCALES,
    WalkerScene,
)
from pliant.core import Array, InputError, MissingExtra, StepError, counted
from pliant.zoo.robots.block_walkers import DENSITY, FRICTION, NU, PRESSURE
from pliant.zoo.robots.block_walkers import E as YOUNG

STATE = ("x", "v", "C", "F")


def run_walker_with_taichi(
    scene: WalkerScene, *, precision: str, repeats: int, segment: int
) -> WalkerRun:
    """Return the gradient of the walker, with `segment` control steps on tape at a time. Call it in
    its own process, because Taichi sets its threads once."""
    if scene.steps % segment:
        raise InputError(
            f"{scene.steps} control steps are no whole number of segments of "
            f"{counted(segment, 'step')}."
        )
    try:
        import taichi as ti
    except ImportError as error:
        raise MissingExtra("Taichi is not installed. Run: pip install 'pliant[bench]'.") from error
    real = getattr(ti, {"float32": "f32", "float64": "f64"}[precision])
    ti.init(arch=ti.cpu, default_fp=real, cpu_max_num_threads=1, log_level=ti.ERROR)
    walker = _Walker(ti, real, scene, segment)
    seconds = []
    for _ in range(repeats + 1):  # the first compiles
        start = perf_counter()
        loss, gradient = walker.gradient()
        seconds.append(perf_counter() - start)
    version = ".".join(map(str, ti.__version__))
    stored = "all" if segment == scene.steps else f"{segment * scene.substeps}"
    return WalkerRun(
        name=f"Taichi {version}, {stored} substeps stored",
        loss=loss,
        gradient=gradient.tolist(),
        seconds=seconds[1:],
        gigabytes=peak_gigabytes(),
    )


class _Walker:
    """The walker in Taichi."""

    def __init__(self, ti: Any, real: Any, scene: WalkerScene, segment: int) -> None:
        self.ti, self.scene, self.segment = ti, scene, segment
        self.state = _fields(ti, real, scene, segment)
        self.kernels = _kernels(ti, real, scene, self.state)
        n = len(scene.positions)
        at_rest, eye = np.zeros((n, 2, 2)), np.tile(np.eye(2), (n, 1, 1))
        self.start = (scene.positions, np.zeros((n, 2)), at_rest, eye)
        assert scene.network.weights is not None
        for field, (W, b) in zip(
            self.state.layers, scene.network.layers(scene.network.weights), strict=True
        ):
            field.W.from_numpy(W)
            field.b.from_numpy(b)

    def gradient(self) -> tuple[float, Array]:
        """Return the loss and its gradient by the weights."""
        ti, state, segments = self.ti, self.state, self.scene.steps // self.segment
        state.loss[None] = 0.0
        kept: list[tuple[Array, ...]] = [self.start]
        for j in range(segments):
            if j:
                kept.append(self._last())
            self._forward(j, kept[j])
        for k in range(self.scene.steps):
            self.kernels.effort(k)
        self.kernels.distance(self.segment * self.scene.substeps)
        self._check_inside()
        ti.ad.clear_all_gradients()
        state.loss.grad[None] = 1.0
        self.kernels.distance.grad(self.segment * self.scene.substeps)
        for j in reversed(range(segments)):
            if j + 1 < segments:
                bars = [getattr(state, name).grad for name in STATE]
                first = [self.kernels.take(bar, 0) for bar in bars]
                self._forward(j, kept[j])
                self.kernels.clear_bars()
                for bar, values in zip(bars, first, strict=True):
                    self.kernels.put(bar, self.segment * self.scene.substeps, values)
            self._backward(j)
        found = [part for f in state.layers for part in (f.W.grad, f.b.grad)]
        return float(state.loss[None]), np.concatenate([g.to_numpy().ravel() for g in found])

    def _last(self) -> tuple[Array, ...]:
        end = self.segment * self.scene.substeps
        return tuple(self.kernels.take(getattr(self.state, name), end) for name in STATE)

    def _forward(self, j: int, start: tuple[Array, ...]) -> None:
        """Simulate the steps of segment j from a state."""
        kernels, substeps = self.kernels, self.scene.substeps
        for name, values in zip(STATE, start, strict=True):
            kernels.put(getattr(self.state, name), 0, values)
        for i in range(self.segment):
            k = j * self.segment + i
            kernels.clear_step(k)
            kernels.observe(k, i * substeps)
            for apply, activate in kernels.layers:
                apply(k)
                activate(k)
            for s in range(i * substeps, (i + 1) * substeps):
                kernels.clear(s)
                kernels.scatter(s, k)
                kernels.sweep(s)
                kernels.gather(s)
        self.ti.sync()

    def _backward(self, j: int) -> None:
        kernels, substeps = self.kernels, self.scene.substeps
        for i in reversed(range(self.segment)):
            k = j * self.segment + i
            for s in reversed(range(i * substeps, (i + 1) * substeps)):
                kernels.gather.grad(s)
                kernels.sweep.grad(s)
                kernels.scatter.grad(s, k)
            kernels.effort.grad(k)
            for apply, activate in reversed(kernels.layers):
                activate.grad(k)
                apply.grad(k)
            kernels.observe.grad(k, i * substeps)
        self.ti.sync()

    def _check_inside(self) -> None:
        origin, shape = _grid(self.scene)
        base = np.floor(self._last()[0] / self.scene.cell - 0.5) - origin
        if not ((base >= 2) & (base + 4 < shape)).all():
            raise StepError("The walker left Taichi's grid; widen the grid.")


def _grid(scene: WalkerScene) -> tuple[Array, Array]:
    """Return the first node and the number of nodes of the grid, with room to move."""
    room = max(8, scene.count // 4)
    size = np.ceil((GROUPS[:, :2] + GROUPS[:, 2:]).max(axis=0) / scene.cell).astype(int)
    return np.array([-room, -5]), size + (2 * room, 5 + room)


def _fields(ti: Any, real: Any, scene: WalkerScene, segment: int) -> SimpleNamespace:
    """Return fields of the particles, the nodes, the network and the loss."""
    n, stored = len(scene.positions), segment * scene.substeps
    particles, nodes = (stored + 1, n), (stored, *_grid(scene)[1].tolist())
    vector = lambda shape: ti.Vector.field(2, real, shape=shape, needs_grad=True)
    matrix = lambda: ti.Matrix.field(2, 2, real, shape=particles, needs_grad=True)
    scalar = lambda *shape: ti.field(real, shape=shape, needs_grad=True)
    constant = lambda kind=real: ti.field(kind, shape=n)
    state = SimpleNamespace(
        x=vector(particles),
        v=vector(particles),
        C=matrix(),
        F=matrix(),
        momentum=vector(nodes),
        node_mass=scalar(*nodes),
        velocity=vector(nodes),
        volume=constant(),
        share=constant(),
        group=constant(ti.i32),
        chamber=constant(ti.i32),
        rest=ti.field(real, shape=SCALES.size),
        scale=ti.field(real, shape=SCALES.size),
        y=scalar(scene.steps, SCALES.size),
        # the last column is the pressure of particles outside the chambers, zero
        u=scalar(scene.steps, len(CHAMBERS) + 1),
        layers=[
            SimpleNamespace(
                W=scalar(i, o), b=scalar(o), z=scalar(scene.steps, o), a=scalar(scene.steps, o)
            )
            for i, o in scene.layers
        ],
        loss=scalar(),
    )
    group = np.repeat(np.arange(len(GROUPS)), scene.count**2)
    column = {g: c for c, g in enumerate(CHAMBERS)}
    chamber = np.array([column.get(g, len(CHAMBERS)) for g in range(len(GROUPS))])
    for field, values in (
        (state.volume, scene.volumes),
        (state.share, scene.volumes / scene.volumes.sum()),
        (state.group, group),
        (state.chamber, chamber[group]),
        (state.scale, SCALES),
        (state.rest, np.pad(scene.centres, ((0, 0), (0, 2))).ravel()),
    ):
        field.from_numpy(np.ascontiguousarray(values))
    return state


def _kernels(ti: Any, real: Any, scene: WalkerScene, state: SimpleNamespace) -> SimpleNamespace:
    """Return the compiled kernels."""
    return SimpleNamespace(
        **_network_kernels(ti, scene, state),
        **_substep_kernels(ti, real, scene, state),
        **_copy_kernels(ti, state),
    )


def _network_kernels(ti: Any, scene: WalkerScene, state: SimpleNamespace) -> dict[str, Any]:
    """Return the kernels of the observer, the network and the loss."""
    x, v, y, u, loss = state.x, state.v, state.y, state.u, state.loss
    rest, scale, group, share = state.rest, state.scale, state.group, state.share
    n, each, columns = len(scene.positions), 1.0 / scene.count**2, SCALES.size
    half, weight, pressures = 0.5 * PRESSURE, 0.5 * EFFORT * scene.dt, len(CHAMBERS) + 1

    @ti.kernel
    def clear_step(k: ti.i32):
        for j in range(columns):
            y[k, j] = -rest[j] / scale[j]
        for j in range(pressures):
            u[k, j] = 0.0

    @ti.kernel
    def observe(k: ti.i32, s: ti.i32):
        for p in range(n):
            first = 4 * group[p]
            for i in ti.static(range(2)):
                y[k, first + i] += each * x[s, p][i] / scale[first + i]
                y[k, first + 2 + i] += each * v[s, p][i] / scale[first + 2 + i]

    def layer(index: int) -> tuple[Any, Any]:
        f = state.layers[index]
        inputs, outputs = f.W.shape
        before = state.layers[index - 1].a if index else y
        is_last = index + 1 == len(state.layers)

        @ti.kernel
        def apply(k: ti.i32):
            for j in range(outputs):
                f.z[k, j] = f.b[j]
            for i, j in ti.ndrange(inputs, outputs):
                f.z[k, j] += before[k, i] * f.W[i, j]

        @ti.kernel
        def activate(k: ti.i32):
            for j in range(outputs):
                if ti.static(is_last):
                    u[k, j] = half + half * ti.tanh(f.z[k, j])
                else:
                    f.a[k, j] = ti.tanh(f.z[k, j])

        return apply, activate

    @ti.kernel
    def effort(k: ti.i32):
        for j in range(pressures - 1):
            loss[None] += weight * u[k, j] ** 2

    @ti.kernel
    def distance(s: ti.i32):
        for p in range(n):
            loss[None] += -share[p] * x[s, p][0]

    layers = [layer(index) for index in range(len(state.layers))]
    return {
        "clear_step": clear_step,
        "observe": observe,
        "layers": layers,
        "effort": effort,
        "distance": distance,
    }


def _substep_kernels(
    ti: Any, real: Any, scene: WalkerScene, state: SimpleNamespace
) -> dict[str, Any]:
    """Return the kernels of a substep."""
    x, v, C, F, u, chamber = state.x, state.v, state.C, state.F, state.u, state.chamber
    momentum, node_mass, velocity, volume = (
        state.momentum,
        state.node_mass,
        state.velocity,
        state.volume,
    )
    n, h, tau = len(scene.positions), scene.cell, scene.tau
    mu, lam = YOUNG / (2 * (1 + NU)), YOUNG * NU / ((1 + NU) * (1 - 2 * NU))
    affine = 4 / h**2
    first, shape = _grid(scene)
    nx, ny, lowest = int(shape[0]), int(shape[1]), int(first[1])
    origin, gravity = ti.Vector(first.tolist(), dt=ti.i32), ti.Vector([0.0, GRAVITY], dt=real)
    eye = ti.Matrix(np.eye(2).tolist(), dt=real)

    @ti.kernel
    def clear(s: ti.i32):
        for I in ti.grouped(ti.ndrange(nx, ny)):
            momentum[s, I] = ti.Vector.zero(real, 2)
            node_mass[s, I] = 0.0

    @ti.kernel
    def scatter(s: ti.i32, k: ti.i32):
        for p in range(n):
            base = ti.floor(x[s, p] / h - 0.5, ti.i32)
            f = x[s, p] / h - base
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            E = F[s, p]
            B = E @ E.transpose()
            K = (mu - u[k, chamber[p]]) * B + (lam * ti.log(E.determinant()) - mu) * eye
            mass = DENSITY * volume[p]
            G = -tau * affine * volume[p] * K + mass * C[s, p]
            g = [[G[:, a] * ((i - f[a]) * h) for a in ti.static(range(2))] for i in range(3)]
            q = mass * v[s, p]
            for i, j in ti.static(ti.ndrange(3, 3)):
                weight = w[i][0] * w[j][1]
                node = base - origin + ti.Vector([i, j])
                momentum[s, node] += weight * (q + g[i][0] + g[j][1])
                node_mass[s, node] += weight * mass

    @ti.kernel
    def sweep(s: ti.i32):
        for I in ti.grouped(ti.ndrange(nx, ny)):
            if node_mass[s, I] > 0.0:
                a = momentum[s, I] / node_mass[s, I] + tau * gravity
                if I[1] + lowest <= 0 and a[1] < 0.0:
                    # Coulomb friction: the tangential velocity loses friction times the impulse
                    left = ti.abs(a[0]) + FRICTION * a[1]
                    if left <= 0.0:
                        a[0] = 0.0
                    elif a[0] > 0.0:
                        a[0] = a[0] + FRICTION * a[1]
                    else:
                        a[0] = a[0] - FRICTION * a[1]
                    a[1] = 0.0
                velocity[s, I] = a

    @ti.kernel
    def gather(s: ti.i32):
        for p in range(n):
            base = ti.floor(x[s, p] / h - 0.5, ti.i32)
            f = x[s, p] / h - base
            w = [0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2]
            d = [(i - f) * h for i in ti.static(range(3))]
            a = ti.Vector.zero(real, 2)
            B = ti.Matrix.zero(real, 2, 2)
            for i, j in ti.static(ti.ndrange(3, 3)):
                part = w[i][0] * w[j][1] * velocity[s, base - origin + ti.Vector([i, j])]
                a += part
                B += part.outer_product(ti.Vector([d[i][0], d[j][1]]))
            x[s + 1, p] = x[s, p] + tau * a
            v[s + 1, p] = a
            C[s + 1, p] = affine * B
            F[s + 1, p] = (eye + tau * affine * B) @ F[s, p]

    return {"clear": clear, "scatter": scatter, "sweep": sweep, "gather": gather}


def _copy_kernels(ti: Any, state: SimpleNamespace) -> dict[str, Any]:
    """Return kernels that copy the values of a substep, and one that clears the adjoints of the
    stored substeps."""

    @ti.kernel
    def _put(field: ti.template(), s: ti.i32, values: ti.types.ndarray()):
        for p in range(values.shape[0]):
            for i, j in ti.static(ti.ndrange(field.n, field.m)):
                if ti.static(field.ndim == 1):
                    field[s, p][i] = values[p, i]
                else:
                    field[s, p][i, j] = values[p, i * field.m + j]

    @ti.kernel
    def _take(field: ti.template(), s: ti.i32, values: ti.types.ndarray()):
        for p in range(values.shape[0]):
            for i, j in ti.static(ti.ndrange(field.n, field.m)):
                if ti.static(field.ndim == 1):
                    values[p, i] = field[s, p][i]
                else:
                    values[p, i * field.m + j] = field[s, p][i, j]

    def put(field: Any, s: int, values: Array) -> None:
        _put(field, s, np.ascontiguousarray(values.reshape(len(values), -1)))

    def take(field: Any, s: int) -> Array:
        values = np.zeros((field.shape[1], field.n * field.m))
        _take(field, s, values)
        return values

    def clear_bars() -> None:
        for name in (*STATE, "momentum", "node_mass", "velocity"):
            getattr(state, name).grad.fill(0.0)

    return {"put": put, "take": take, "clear_bars": clear_bars}
