"""Potential flow: added masses against closed forms, convergence, derivatives, invariance."""

import numba
import numpy as np
import pytest

from pliant.geometry import hare_surface
from pliant.swimming import (
    ClosedSurface,
    EllipsoidShape,
    LinkContactError,
    Placement,
    PotentialFlow,
)

WATER = 1000.0


def sphere(radius=1.0):
    return EllipsoidShape(semi_axes=3 * (radius,))


def triangulated(semi_axes, divisions):
    surface = EllipsoidShape(semi_axes=semi_axes).surface(divisions)
    return ClosedSurface(points=surface.points, triangles=surface.triangles)


def added_mass(shape, **options):
    flow = PotentialFlow(shapes=(shape,), fluid_density=WATER, **options)
    return flow.solve(Placement.single()).added_mass


def test_sphere_has_half_of_the_displaced_mass():
    mass = added_mass(sphere(0.1)) / (WATER * sphere(0.1).volume)
    np.testing.assert_allclose(mass[:3, :3], 0.5 * np.eye(3), atol=5e-4)
    np.testing.assert_allclose(mass[3:], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("axes", "points"),
    [
        ((4.0, 1.0, 0.6), 353),
        ((2.0, 1.0, 0.8), 353),
        ((1.0, 0.3, 0.2), 353),
        ((0.05, 0.1, 0.2), 353),
        ((3.0, 0.5, 0.2), 706),  # 353 points have 0.9 %
    ],
)
def test_ellipsoid_agrees_with_lamb(axes, points, lamb):
    shape = EllipsoidShape(semi_axes=axes)
    mass = np.diag(added_mass(shape, ellipsoid_points=points)) / (WATER * shape.volume)
    translations, rotations = lamb(axes)
    np.testing.assert_allclose(mass[:3], translations, rtol=5e-3)
    np.testing.assert_allclose(mass[3:], rotations, rtol=5e-3)


def test_error_of_points_falls_with_the_third_power_of_their_distance(rate, lamb):
    counts, exact = np.array([100, 200, 400, 800]), lamb((2.0, 1.0, 0.8))[0]
    shape = EllipsoidShape(semi_axes=(2.0, 1.0, 0.8))
    displaced = WATER * shape.volume
    errors = [
        np.linalg.norm(np.diag(added_mass(shape, ellipsoid_points=n))[:3] / displaced - exact)
        for n in counts
    ]
    assert rate(counts**-0.5, errors) > 2.5


def test_error_of_triangles_falls_with_the_square_of_their_size(rate, lamb):
    axes, divisions = (2.0, 1.0, 0.8), np.array([3, 4, 6, 8])
    displaced = WATER * EllipsoidShape(semi_axes=axes).volume
    exact = np.concatenate(lamb(axes))
    errors = [
        np.linalg.norm(np.diag(added_mass(triangulated(axes, d))) / displaced - exact)
        for d in divisions
    ]
    assert 1.8 < rate(1.0 / divisions, errors) < 2.3


def pair(c):
    """Return two spheres at distance c along x. The first hinge moves the second along x, the other
    along y, while it rotates."""
    return Placement(
        rotations=np.stack(2 * [np.eye(3)]),
        centres=np.array([[0.0, 0.0, 0.0], [c, 0.0, 0.0]]),
        axes=np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
        anchors=np.array([[c, 1.0, 0.0], [c - 1.0, 0.0, 0.0]]),
        moves=np.array([[False, False], [True, True]]),
    )


def image_masses(a, b, c):
    """Return the added mass of sphere a that moves along the line of the centres, and its coupling
    with sphere b, over the density: the images of a dipole are dipoles (Hicks 1880)."""
    moment, position = 0.5 * a**3, c
    sums, radii, k = [moment, 0.0], (a, b), 1
    for _ in range(300):
        moment *= -(radii[k] ** 3) / position**3
        position = c - radii[k] ** 2 / position
        sums[k] += moment
        k = 1 - k
    return 4.0 * np.pi * sums[0] - 4.0 / 3.0 * np.pi * a**3, 4.0 * np.pi * sums[1]


@pytest.mark.parametrize("gap", [0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("radius", [1.0, 0.6])
def test_two_spheres_interact_as_their_images(gap, radius):
    c = 1.0 + radius + gap
    flow = PotentialFlow(shapes=(sphere(), sphere(radius)), fluid_density=1.0)
    found = flow.solve(pair(c)).added_mass
    own, coupling = image_masses(1.0, radius, c)
    other, same = image_masses(radius, 1.0, c)
    assert same == pytest.approx(coupling)
    assert found[6, 6] == pytest.approx(other, rel=1e-3)
    assert found[0, 6] == pytest.approx(other + coupling, rel=1e-3)
    assert found[0, 0] == pytest.approx(own + other + 2.0 * coupling, rel=1e-3)


def test_two_spheres_interact_across_the_line_of_centres_as_lamb_says():
    c = 5.0
    flow = PotentialFlow(shapes=(sphere(), sphere()), fluid_density=1.0, ellipsoid_points=1000)
    found = flow.solve(pair(c)).added_mass
    own = 2.0 / 3.0 * np.pi * (1.0 + 0.75 / c**6)  # Hydrodynamics, 138
    coupling = np.pi / c**3
    assert found[7, 7] == pytest.approx(own, rel=1e-4)
    assert found[1, 7] - found[7, 7] == pytest.approx(coupling, rel=1e-3)


def test_triangles_converge_to_points_at_a_bent_pose(chain, rate):
    """Two independent discretisations, and robots with both kinds of links."""
    shape = EllipsoidShape(semi_axes=(0.2, 0.08, 0.05))
    placement = chain((0.5, -0.4), 3 * (0.2,), 0.04, [(0.0, 0.6, 0.8), (0.0, 0.0, 1.0)])
    exact = PotentialFlow(shapes=3 * (shape,), fluid_density=WATER).solve(placement).added_mass
    scale, divisions, errors = np.sqrt(np.diag(exact)), np.array([3, 4, 6]), []
    for count in divisions:
        flat = triangulated(shape.semi_axes, count)
        # with the volume of the ellipsoid
        points = flat.points * (shape.volume / flat.volume) ** (1.0 / 3.0)
        link = ClosedSurface(points=points, triangles=flat.triangles)
        found = PotentialFlow(shapes=(shape, link, link), fluid_density=WATER).solve(placement)
        errors.append(np.abs((found.added_mass - exact) / np.outer(scale, scale)).max())
    assert errors[-1] < 0.01
    assert rate(1.0 / divisions, errors) > 1.7


@pytest.fixture
def robot():
    """Return the flow around two ellipsoids and a hare, and half the lengths of the links."""
    link = EllipsoidShape(semi_axes=(0.2, 0.08, 0.05))
    hare = hare_surface(0.2, divisions=5)
    middle = ClosedSurface(points=hare.points - hare.points.mean(axis=0), triangles=hare.triangles)
    flow = PotentialFlow(shapes=(link, middle, link), fluid_density=WATER, ellipsoid_points=60)
    return flow, 3 * (0.2,)


AXES = [(0.0, 0.6, 0.8), (0.6, 0.0, 0.8)]


def test_added_mass_is_positive_definite_at_random_poses(robot, chain, rng):
    flow, halves = robot
    for _ in range(5):
        found = flow.solve(chain(rng.uniform(-0.6, 0.6, 2), halves, 0.1, AXES))
        assert np.linalg.eigvalsh(found.added_mass).min() > 0.0
        assert (found.added_mass == found.added_mass.T).all()
        assert found.asymmetry < 5e-3


def test_derivative_equals_central_differences(robot, chain, rng):
    flow, halves = robot
    angles = rng.uniform(-0.4, 0.4, 2)

    def mass(shift):
        return flow.solve(chain(angles + shift, halves, 0.1, AXES)).added_mass

    found = flow.solve(chain(angles, halves, 0.1, AXES), derivative=True).derivative
    for k, direction in enumerate(1e-4 * np.eye(2)):
        near, far = (mass(s * direction) - mass(-s * direction) for s in (1, 2))
        difference = (8.0 * near - far) / 12e-4
        np.testing.assert_allclose(
            found[k], difference, atol=1e-9 * np.abs(difference).max(), rtol=0.0
        )


def test_derivative_of_branches_equals_central_differences(rng):
    """Two arms on one trunk: a hinge of one does not move the other."""
    shapes = (
        sphere(0.3),
        EllipsoidShape(semi_axes=(0.2, 0.1, 0.05)),
        EllipsoidShape(semi_axes=(0.1,) * 3),
    )
    axes, anchors = (
        np.array([[0.0, 0.6, 0.8], [0.8, 0.6, 0.0]]),
        np.array([[0.4, 0, 0], [0, 0, 0.4]]),
    )
    centres = np.array([[0.0, 0.0, 0.0], [0.7, 0.0, 0.1], [0.1, 0.0, 0.6]])
    flow = PotentialFlow(shapes=shapes, fluid_density=WATER, ellipsoid_points=80)

    def placed(angles):
        cos, sin = np.cos(angles), np.sin(angles)
        R = [np.eye(3)]
        for a, c, s in zip(axes, cos, sin, strict=True):
            S = np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
            R.append(np.eye(3) + s * S + (1.0 - c) * S @ S)
        arms = [anchors[k] + R[k + 1] @ (centres[k + 1] - anchors[k]) for k in range(2)]
        return Placement(
            rotations=np.array(R),
            centres=np.array([centres[0], *arms]),
            axes=axes,
            anchors=anchors,
            moves=np.array([[False, False], [True, False], [False, True]]),
        )

    angles = rng.uniform(-0.3, 0.3, 2)
    found = flow.solve(placed(angles), derivative=True).derivative
    for k, d in enumerate(1e-4 * np.eye(2)):
        M = [flow.solve(placed(angles + s * d)).added_mass for s in (-2, -1, 1, 2)]
        difference = (M[0] - 8.0 * M[1] + 8.0 * M[2] - M[3]) / 12e-4
        np.testing.assert_allclose(
            found[k], difference, atol=1e-9 * np.abs(difference).max(), rtol=0.0
        )


def test_energy_does_not_depend_on_the_frame(robot, chain, rotation_matrix):
    """Another frame of the root transforms the added mass like the velocities."""
    flow, halves = robot
    old = chain((0.3, -0.2), halves, 0.1, AXES)
    R, c = rotation_matrix(np.array([0.4, -1.0, 0.7])), np.array([0.3, -0.1, 0.2])
    new = Placement(
        rotations=R @ old.rotations,
        centres=old.centres @ R.T + c,
        axes=old.axes @ R.T,
        anchors=old.anchors @ R.T + c,
        moves=old.moves,
    )
    T = np.eye(8)  # velocities in the new frame -> in the old one
    T[:3, :3] = T[3:6, 3:6] = R.T
    S = np.array([[0.0, -c[2], c[1]], [c[2], 0.0, -c[0]], [-c[1], c[0], 0.0]])
    T[:3, 3:6] = -R.T @ S
    one, other = (flow.solve(place, derivative=True) for place in (old, new))
    np.testing.assert_allclose(
        T.T @ one.added_mass @ T, other.added_mass, atol=1e-12 * np.abs(other.added_mass).max()
    )
    np.testing.assert_allclose(
        T.T @ one.derivative @ T, other.derivative, atol=1e-11 * np.abs(other.derivative).max()
    )
    np.testing.assert_allclose(one.potential @ T, other.potential, atol=1e-12)


def test_potential_on_a_sphere_is_minus_half_of_the_velocity():
    flow = PotentialFlow(shapes=(sphere(2.0),), fluid_density=WATER)
    found = flow.solve(Placement.single())
    assert found.potential.shape == (353, 6)
    np.testing.assert_allclose(found.potential[:, :3], -0.5 * found.points, atol=2e-3)


def test_bits_do_not_depend_on_the_number_of_threads(robot, chain):
    flow, halves = robot
    placement = chain((0.3, -0.2), halves, 0.1, AXES)
    results, before = [], numba.get_num_threads()
    try:
        for threads in {1, numba.config.NUMBA_NUM_THREADS}:
            numba.set_num_threads(threads)
            fresh = PotentialFlow(
                shapes=flow.shapes, fluid_density=WATER, ellipsoid_points=flow.ellipsoid_points
            )
            results.append(fresh.solve(placement, derivative=True))
    finally:
        numba.set_num_threads(before)
    for found in results[1:]:
        assert (found.added_mass == results[0].added_mass).all()
        assert (found.derivative == results[0].derivative).all()
        assert (found.potential == results[0].potential).all()


def test_spacing_is_the_distance_between_neighbouring_points():
    flow = PotentialFlow(shapes=(sphere(2.0),), fluid_density=WATER)
    points = flow.surfaces[0].points
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 10.0 * np.eye(len(points))
    assert flow.spacing[0] == pytest.approx(np.median(apart.min(axis=1)), rel=0.2)


@pytest.mark.parametrize("gap", [0.05, 0.3])
def test_triangles_resolve_small_gaps(gap):
    """Their integrals are exact, so the error of 320 triangles is that of one sphere, 1.4 %."""
    ball = triangulated((1.0, 1.0, 1.0), 4)
    scale = (sphere().volume / ball.volume) ** (1.0 / 3.0)
    link = ClosedSurface(points=scale * ball.points, triangles=ball.triangles)
    found = PotentialFlow(shapes=(link, link), fluid_density=1.0).solve(pair(2.0 + gap)).added_mass
    own, coupling = image_masses(1.0, 1.0, 2.0 + gap)
    assert found[6, 6] == pytest.approx(own, rel=0.015)
    assert found[0, 6] - found[6, 6] == pytest.approx(coupling, rel=0.015)


def test_asymmetry_tells_that_a_gap_is_too_small():
    flow = PotentialFlow(shapes=2 * (sphere(),), fluid_density=WATER)
    wide, narrow = (flow.solve(pair(2.0 + gap * flow.spacing[0])) for gap in (1.0, 0.1))
    assert wide.asymmetry < 1e-4 < 1e-3 < narrow.asymmetry


def test_equal_shapes_are_discretised_once():
    link = sphere(0.1)
    flow = PotentialFlow(shapes=(link, link, sphere(0.1)), fluid_density=WATER, ellipsoid_points=20)
    assert flow.surfaces[0] is flow.surfaces[1]
    assert flow.surfaces[0] is not flow.surfaces[2]


def test_links_that_meet_are_named(chain):
    link = EllipsoidShape(semi_axes=(0.2, 0.1, 0.1))
    flow = PotentialFlow(shapes=3 * (link,), fluid_density=WATER, ellipsoid_points=20)
    flow.solve(chain((0.0, 0.0), 3 * (0.2,), 0.01))
    with pytest.raises(LinkContactError, match="Links 0 and 1 overlap or touch") as caught:
        flow.solve(chain((0.0, 0.0), 3 * (0.2,), 0.0))
    assert caught.value.links == (0, 1)
    with pytest.raises(LinkContactError, match="Links 1 and 2"):
        flow.solve(chain((0.0, 2.5), 3 * (0.2,), 0.05))


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"fluid_density": 0.0}, "density of the fluid is 0"),
        ({"fluid_density": np.nan}, "density of the fluid is nan"),
        ({"fluid_density": "water"}, "density of the fluid is 'water'"),
        ({"shapes": ()}, "no links"),
        ({"shapes": ("ball",)}, "shape of link 0 is 'ball'"),
        (
            {"shapes": (EllipsoidShape(semi_axes=(1, 1, 0.05)),)},
            "Give each ellipsoid 1128 points or more",
        ),
        ({"ellipsoid_points": 3}, "number of points"),
        ({"ellipsoid_points": 353.0}, "number of points"),
        ({"shapes": 2 * (sphere(),), "ellipsoid_points": 20_000}, "at most 20,000"),
    ],
)
def test_bad_fluids_are_refused(changes, pattern, raises_clear_error):
    good = {"shapes": (sphere(),), "fluid_density": WATER}
    raises_clear_error(lambda: PotentialFlow(**(good | changes)), pattern)


def test_bad_placements_are_refused(raises_clear_error):
    flow = PotentialFlow(shapes=(sphere(),), fluid_density=WATER)
    raises_clear_error(lambda: flow.solve(pair(3.0)), "2 links, but there are 1 shapes")
    raises_clear_error(lambda: flow.solve([0.0]), "placement is")
    good = {name: getattr(pair(3.0), name) for name in Placement.__dataclass_fields__}
    for name, value, pattern in [
        ("rotations", np.ones((2, 3, 3)), "link 0 is not a rotation"),
        ("rotations", -np.stack(2 * [np.eye(3)]), "link 0 is not a rotation"),
        ("axes", np.ones((2, 3)), "hinge 0 is not a unit vector"),
        ("centres", np.full((2, 3), np.nan), "centres of the links is nan"),
        ("anchors", np.zeros((1, 3)), "anchors of the hinges"),
        ("moves", np.zeros((2, 1), bool), "moved links"),
    ]:
        changed = good | {name: value}
        raises_clear_error(lambda changed=changed: Placement(**changed), pattern)
