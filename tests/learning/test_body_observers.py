"""Observers of centroids and strains: closed forms, invariances, derivatives and errors."""

import numpy as np
import pytest
from models import fem, latent, mass, particles

import pliant as pl
from pliant.core import InputError, ObserverWithMemory
from pliant.geometry.k_means import k_means
from pliant.learning import (
    CentroidObserver,
    ClosedLoop,
    LinearFeedback,
    ScaledObserver,
    StackedObserver,
    StrainObserver,
    attach_observer,
)
from pliant.learning.loop_episodes import LoopEpisodes
from pliant.learning.observers import attach_any

HALF = pl.geometry.Rectangle(size=(0.1, 0.02))
MAKE = {"FEM": lambda: fem(design=()), "particles": lambda: particles(design=())}
OBSERVERS = {
    "centroids": CentroidObserver(k=3, quantities=("position", "velocity", "acceleration")),
    "relative": StackedObserver(
        observers=[CentroidObserver(k=3, relative_axes=(0,)), StrainObserver(rate=True)]
    ),
    "stacked": StackedObserver(
        observers=[CentroidObserver(quantities="acceleration"), StrainObserver(rate=True)]
    ),
    "strain": StrainObserver(region=HALF, rate=True),
    "axial": StrainObserver(kind="axial", axis=(1.0, 0.5), rate=True),
}


@pytest.fixture(scope="module")
def models():
    return {name: make() for name, make in MAKE.items()}


def rods():
    return pl.Robot(
        shape=pl.geometry.Rods(
            points=[[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.2, 0.0, 0.0]],
            rods=[[0, 1], [1, 2]],
            regions={"root": [0]},
            section=pl.geometry.CircularSection(radius=0.005),
        ),
        material=pl.Material(E=1e6, nu=0.4, density=1000.0),
        supports=[pl.Support(region="root")],
    )


def disturbed(model, seed=0, size=1e-3):
    """Return a state near the initial one, with all parts changed."""
    x, rng = model.initial_state(), np.random.default_rng(seed)
    return x + size * rng.standard_normal(len(x))


def rigid_state(model, angle, shift, speed):
    """Return the initial state after a rotation and a shift, with a velocity (dim,)."""
    c, s = np.cos(angle), np.sin(angle)
    R = np.array([[c, -s], [s, c]])
    n = model.body.rest.size // 2
    q = (model.body.rest.reshape(n, 2) @ R.T + shift).ravel()
    v = np.tile(speed, n)
    if "deformation" in model.space.parts:
        return model.state(q, v, None, np.tile(R, (n, 1, 1)))
    return np.concatenate([q, v])


# Derivatives


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", OBSERVERS)
def test_vjp_is_the_derivative(name, kind, models, taylor):
    model = models[kind]
    observer = attach_any(OBSERVERS[name], model)
    rng = np.random.default_rng(1)
    x, dx = disturbed(model), 1e-2 * rng.standard_normal(model.space.size)
    y_bar = rng.standard_normal(observer.size)
    if isinstance(observer, ObserverWithMemory):
        n = len(observer.initial_memory)
        memory, dm, m_bar = rng.standard_normal((3, n))

        def value(e):
            y, after = observer.observe_and_store(x + e * dx, memory + e * dm)
            return y_bar @ y + m_bar @ after

        x_bar, back = observer.memory_vjp(x, memory, y_bar, m_bar)
        slope = x_bar @ dx + back @ dm
    else:
        value = lambda e: y_bar @ observer.observe(x + e * dx)
        slope = observer.vjp(x, y_bar) @ dx
    assert (value(1e-4) - value(-1e-4)) / 2e-4 == pytest.approx(slope, rel=1e-6)
    assert taylor(value, slope) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", OBSERVERS)
def test_gradient_of_a_closed_loop_passes_taylors_test(name, kind, models, taylor):
    model = models[kind]
    seen = attach_any(OBSERVERS[name], model)
    gains = np.random.default_rng(2).uniform(-5e-3, 5e-3, (2, seen.size))
    feedback = LinearFeedback(gains=gains, reference=np.zeros(seen.size), controls=[0.5, 0.3])
    loop = ClosedLoop(model, ScaledObserver(observer=OBSERVERS[name], scale=1.0), feedback)
    goal = pl.Goal(effector="tip", target=(0.19, 0.04), weight=100.0)
    task = pl.learning.ControlTask(steps=6, terms=[goal, pl.Effort(weight=1e-3)])
    episodes = LoopEpisodes.draw(loop, task, count=1, seed=0)
    w = loop.controller.params.flat
    run = episodes.run(w, episodes.starts[0])
    assert not run.failed
    assert np.all((run.controls > 0.0) & (run.controls < 1.0))  # a limit would be a kink
    _, slope = episodes.gradient(w, tapes=6)
    direction = 0.1 * np.random.default_rng(3).standard_normal(len(w))
    cost = lambda e: episodes.performance(w + e * direction).cost
    assert taylor(cost, slope @ direction) == pytest.approx(2.0, abs=0.1)


# Centroids


@pytest.mark.parametrize("kind", MAKE)
def test_centroids_move_with_a_rigid_motion(kind, models):
    model = models[kind]
    observer = attach_observer(CentroidObserver(groups=["body", HALF]), model)
    y = observer.observe(model.initial_state()).reshape(2, 2, 2)
    assert y[0, 0] == pytest.approx([0.1, 0.01], abs=1e-12)  # the middle of the strip
    assert y[1, 0] == pytest.approx([0.05, 0.01], abs=1e-12)
    angle, shift, speed = 0.7, np.array([0.3, -0.2]), np.array([0.5, 2.0])
    moved = observer.observe(rigid_state(model, angle, shift, speed)).reshape(2, 2, 2)
    c, s = np.cos(angle), np.sin(angle)
    assert moved[:, 0] == pytest.approx(y[:, 0] @ np.array([[c, s], [-s, c]]) + shift, abs=1e-12)
    assert moved[:, 1] == pytest.approx(np.tile(speed, (2, 1)), abs=1e-12)


@pytest.mark.parametrize("kind", MAKE)
def test_relative_centroids_do_not_see_a_shift_along_their_axes(kind, models):
    model = models[kind]
    relative = CentroidObserver(groups=["body", HALF], relative_axes=(0,))
    observer = attach_observer(relative, model)
    rest = observer.observe(model.initial_state()).reshape(2, 2, 2)
    assert rest[:, 0, 0] == pytest.approx([0.0, -0.05], abs=1e-12)
    state = rigid_state(model, 0.0, np.array([0.3, -0.2]), np.array([0.5, 2.0]))
    moved = observer.observe(state).reshape(2, 2, 2)
    assert moved[:, 0] == pytest.approx(rest[:, 0] + np.array([0.0, -0.2]), abs=1e-12)
    assert moved[:, 1] == pytest.approx(np.tile([0.5, 2.0], (2, 1)), abs=1e-12)


@pytest.mark.parametrize("axis", [2, -1, 0.5])
def test_relative_axis_beyond_the_dimension_is_an_error(axis, models):
    with pytest.raises(InputError, match="relative axis"):
        attach_observer(CentroidObserver(relative_axes=(axis,)), models["FEM"])


@pytest.mark.parametrize("axes", [0, None, "x"])
def test_relative_axes_are_a_list(axes):
    with pytest.raises(InputError, match="give a list of axes"):
        CentroidObserver(relative_axes=axes)


def test_relative_axes_without_positions_are_an_error(models):
    observer = CentroidObserver(quantities="velocity", relative_axes=(0,))
    with pytest.raises(InputError, match="relative axes, but no positions"):
        attach_observer(observer, models["FEM"])


def test_centroid_is_weighted_by_mass():
    layers = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.1)),
        divisions=(2, 2),
        material=pl.Material(E=1e5, nu=0.3, density=1000.0),
    )
    body = layers.body()
    left = np.flatnonzero(body.cell_centres()[:, 0] < 0.05)
    mesh = pl.Mesh(points=body.mesh.points, cells=body.mesh.cells, regions={"left": left})
    heavy, light = (pl.Material(E=1e5, nu=0.3, density=d) for d in (3000.0, 1000.0))
    robot = pl.Robot(shape=mesh, material={"left": heavy, "default": light})
    model = pl.ImplicitEuler(robot, dt=0.1)
    y = attach_observer(CentroidObserver(quantities="position"), model).observe(
        model.initial_state()
    )
    assert y == pytest.approx([0.75 * 0.025 + 0.25 * 0.075, 0.05])
    part = attach_observer(CentroidObserver(groups="left", quantities="position"), model)
    assert part.observe(model.initial_state()) == pytest.approx([0.025, 0.05])


def test_centroid_of_beams_and_point_masses_is_their_mean_position():
    model = pl.ImplicitEuler(rods(), dt=0.01)
    observer = attach_observer(CentroidObserver(k=2), model)
    y = observer.observe(model.initial_state()).reshape(2, 2, 3)
    assert y[:, 0] == pytest.approx(np.array([[0.05, 0.0, 0.0], [0.15, 0.0, 0.0]]))
    point = pl.ImplicitEuler(mass(), dt=0.1)
    x = np.array([0.1, 0.2, 0.3, 0.4])
    assert attach_observer(CentroidObserver(), point).observe(x).tolist() == x.tolist()


@pytest.mark.parametrize("kind", MAKE)
def test_acceleration_is_the_change_of_the_velocity(kind, models):
    """A body in free fall accelerates with gravity after the first step."""
    made = models[kind]
    free = type(made)(
        pl.Robot(
            shape=pl.geometry.Rectangle(size=(0.1, 0.02)),
            divisions=(4, 1),
            thickness=0.02,
            material=pl.Material(E=1e5, nu=0.35, density=1000.0),
            actuators={"cable": pl.Cable(points=[(0.0, 0.01), (0.1, 0.01)], limits=(0.0, 1.0))},
            gravity=(0.0, -9.81),
        ),
        dt=made.dt,
        **({"cell": 0.01} if kind == "particles" else {}),
    )
    seen = CentroidObserver(quantities="acceleration")
    zero = np.zeros((1, 2))
    loop = ClosedLoop(free, seen, LinearFeedback(gains=zero, reference=[0, 0], controls=[0.0]))
    states = pl.simulate(loop, np.zeros((4, 0)), progress=False).states
    inner, memory = loop.split_states(states)[0], loop.memory(states)
    observed = [
        loop.attached.observe_and_store(x, m)[0] for x, m in zip(inner, memory, strict=True)
    ]
    assert observed[0].tolist() == [0.0, 0.0]
    assert np.array(observed[1:]) == pytest.approx(np.tile([0.0, -9.81], (4, 1)), abs=1e-6)


# Clusters


def test_clusters_depend_on_the_seed_alone(models):
    for model in models.values():
        same = [CentroidObserver(k=5, seed=3).cells_of(model) for _ in range(2)]
        assert all(np.array_equal(a, b) for a, b in zip(*same, strict=True))
        cells = np.sort(np.concatenate(same[0]))
        assert np.array_equal(cells, np.arange(len(model.body.volumes())))
        assert min(len(part) for part in same[0]) > 0


def test_clusters_of_separate_heaps_are_the_heaps():
    rng = np.random.default_rng(0)
    heaps = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
    points = np.concatenate([heap + 0.1 * rng.standard_normal((30, 2)) for heap in heaps])
    for seed in range(5):
        labels = k_means(points, rng.uniform(0.5, 2.0, 90), 3, seed)
        found = labels.reshape(3, 30)
        assert np.all(found == found[:, :1])
        assert len(set(found[:, 0])) == 3
        assert found[0, 0] == 2  # sorted by x


def test_clusters_are_at_most_the_number_of_different_points(raises_clear_error):
    points = np.array([[0.0], [1.0], [1.0], [5.0]])
    assert k_means(points, np.ones(4), 3, 0).tolist() == [0, 1, 1, 2]
    raises_clear_error(lambda: k_means(points, np.ones(4), 4, 0), "3 different points, but 4")


# Strains


@pytest.mark.parametrize("kind", MAKE)
def test_strain_is_zero_under_a_rigid_motion(kind, models):
    model = models[kind]
    observer = attach_observer(StrainObserver(), model)
    x = rigid_state(model, 1.1, np.array([3.0, 0.2]), np.zeros(2))
    assert observer.observe(x) == pytest.approx(np.zeros(3), abs=1e-13)


@pytest.mark.parametrize("kind", MAKE)
def test_strain_of_an_affine_motion_matches_its_closed_form(kind, models):
    """F and its rate L F give E = (F^T F - I) / 2 and the rate F^T sym(L) F."""
    model, n = models[kind], models[kind].body.rest.size // 2
    F, L = np.array([[1.2, 0.3], [-0.1, 0.9]]), np.array([[0.5, -0.2], [0.7, 0.1]])
    q = model.body.rest.reshape(n, 2) @ F.T
    v = q @ L.T
    x = (
        model.state(q.ravel(), v.ravel(), np.tile(L, (n, 1, 1)), np.tile(F, (n, 1, 1)))
        if kind == "particles"
        else np.concatenate([q.ravel(), v.ravel()])
    )
    E, rate = 0.5 * (F.T @ F - np.eye(2)), 0.5 * F.T @ (L + L.T) @ F
    found = attach_observer(StrainObserver(region=HALF, rate=True), model).observe(x)
    expected = [E[0, 0], E[1, 1], E[0, 1], rate[0, 0], rate[1, 1], rate[0, 1]]
    assert found == pytest.approx(expected, rel=1e-12)
    a = np.array([0.6, 0.8])
    axial = attach_observer(StrainObserver(kind="axial", axis=3.0 * a), model).observe(x)
    assert axial == pytest.approx([a @ E @ a])
    assert np.sqrt(1.0 + 2.0 * axial[0]) == pytest.approx(np.linalg.norm(F @ a))


def test_strain_components_in_space_have_the_documented_order():
    block = pl.Robot(
        shape=pl.Box(size=(0.1, 0.1, 0.1)),
        divisions=(1, 1, 1),
        material=pl.Material(E=1e5, nu=0.3, density=1000.0),
    )
    model = pl.ImplicitEuler(block, dt=0.1)
    F = np.array([[1.1, 0.2, 0.0], [0.0, 1.0, 0.4], [0.3, 0.0, 0.8]])
    x = model.state((model.body.rest.reshape(-1, 3) @ F.T).ravel())
    E = 0.5 * (F.T @ F - np.eye(3))
    expected = [E[0, 0], E[1, 1], E[2, 2], E[1, 2], E[0, 2], E[0, 1]]
    assert attach_observer(StrainObserver(), model).observe(x) == pytest.approx(expected)


# Errors


def test_bad_observers_are_refused(models, raises_clear_error):
    model, acceleration = models["FEM"], CentroidObserver(quantities="acceleration")
    bad = [
        (lambda: CentroidObserver(groups="body", k=2), "groups and k"),
        (lambda: CentroidObserver(k=0), "number of clusters is '0'"),
        (lambda: CentroidObserver(k=2, seed=-1), "seed"),
        (lambda: CentroidObserver(groups=[]), "The groups are"),
        (lambda: CentroidObserver(groups=[3]), "The groups are"),
        (lambda: CentroidObserver(quantities="force"), "no 'force'"),
        (lambda: CentroidObserver(quantities=()), "The quantities are"),
        (lambda: StrainObserver(kind="shear"), "kind of a strain is 'shear'"),
        (lambda: StrainObserver(kind="axial"), "needs its axis"),
        (lambda: StrainObserver(axis=(1.0, 0.0)), "mean strain has none"),
        (lambda: StrainObserver(kind="axial", axis=(0.0, 0.0)), "axis of a strain is zero"),
        (lambda: StrainObserver(region=3), "region of a strain is '3'"),
        (lambda: attach_observer(CentroidObserver(groups="nose"), model), "no region 'nose'"),
        (lambda: attach_observer(CentroidObserver(k=99), model), "but 99 clusters"),
        (lambda: attach_observer(acceleration, model), "has a memory"),
        (lambda: attach_observer(CentroidObserver(), latent()), "not Latent"),
        (lambda: attach_observer(StrainObserver(), latent()), "not Latent"),
        (lambda: attach_observer(StrainObserver(region="nose"), model), "no region 'nose'"),
        (
            lambda: attach_observer(StrainObserver(region=pl.Box(size=(1, 1, 1))), model),
            "region of a strain is 3D",
        ),
        (
            lambda: attach_observer(StrainObserver(), pl.ImplicitEuler(mass(), dt=0.1)),
            "have no strain of a solid",
        ),
        (
            lambda: attach_observer(StrainObserver(kind="axial", axis=(1.0, 0, 0)), model),
            "axis of a strain has shape",
        ),
        (
            lambda: attach_any(acceleration, pl.Quasistatic(model.robot)),
            "no velocity, so its centroids",
        ),
        (
            lambda: attach_observer(StrainObserver(rate=True), pl.Quasistatic(model.robot)),
            "no velocity, so a strain has no rate",
        ),
    ]
    for make, pattern in bad:
        raises_clear_error(make, pattern)
    static = attach_observer(CentroidObserver(), pl.Quasistatic(model.robot))
    assert static.size == 2
