"""Frames: rigid motions with exact derivatives at every rotation, zero included."""

import numpy as np
import pytest
from scipy.linalg import expm

from pliant.actuators import Frame, MovingFrame
from pliant.core import InputError
from pliant.zoo.robots import irb14000

ORIGIN = {2: (0.3, -0.1), 3: (0.3, -0.1, 0.2)}
FRAMES = {
    "plane": MovingFrame(origin=ORIGIN[2]),
    "space": MovingFrame(origin=ORIGIN[3]),
    "right": irb14000("right"),
    "left": irb14000("left"),
}
every = pytest.mark.parametrize("name", FRAMES)
ROTATIONS = {
    "zero": (0.0, 0.0, 0.0),
    "tiny": (1e-9, -2e-9, 1e-9),
    "small": (1e-4, 2e-4, -1e-4),
    "below the series' end": (0.6, -0.5, 0.6),
    "above it": (0.6, -0.6, 0.6),
    "half a rotation": (np.pi, 0.0, 0.0),
    "large": (4.0, -3.0, 2.0),
    "a whole rotation": (0.0, 2 * np.pi, 0.0),
}


def drawn(name, rng):
    """Return (frame, local points (5, dim), controls) of a random pose within the limits."""
    frame = FRAMES[name]
    lower, upper = (np.clip(side, -3.0, 3.0) for side in frame.limits)
    return frame, 0.3 * rng.standard_normal((5, frame.dim)), rng.uniform(lower, upper)


@every
def test_class_implements_frame_protocol(name):
    frame = FRAMES[name]
    assert isinstance(frame, Frame)
    assert all(side.shape == (frame.n_controls,) for side in (*frame.limits, frame.start))
    assert frame.outline(frame.start).shape[1] == frame.dim


@every
def test_frame_is_rigid_and_local_positions_inverts_positions(name, rng):
    frame, l, u = drawn(name, rng)
    y = frame.positions(l, u)
    apart = lambda x: np.linalg.norm(x[:, None] - x, axis=2)
    np.testing.assert_allclose(apart(y), apart(l), atol=1e-14)
    np.testing.assert_allclose(frame.local_positions(y, u), l, atol=1e-14)


@every
def test_jacobian_and_hessian_vector_pass_taylor_test(name, rng, taylor):
    frame, l, u = drawn(name, rng)
    du, bar = rng.standard_normal(frame.n_controls), rng.standard_normal(l.shape)
    assert taylor(
        lambda e: frame.positions(l, u + e * du), np.tensordot(du, frame.jacobian(l, u), 1)
    ) == pytest.approx(2.0, abs=0.1)
    pulled = lambda e: np.sum(bar * frame.jacobian(l, u + e * du), axis=(1, 2))
    assert taylor(pulled, frame.hessian_vector(l, u, bar, du)) == pytest.approx(2.0, abs=0.1)


@every
def test_cached_pose_does_not_change_results(name, rng):
    """A cached pose must not change results, even if the array of the controls is modified in
    place."""
    frame, l, u = drawn(name, rng)
    first, slopes = frame.positions(l, u), frame.jacobian(l, u)
    kept = u.copy()
    u += 0.1
    assert np.abs(frame.positions(l, u) - first).max() > 1e-3
    first_again = frame.positions(l, kept)
    np.testing.assert_array_equal(first, first_again)
    first_again[:] = 7.0
    np.testing.assert_array_equal(frame.jacobian(l, kept), slopes)
    np.testing.assert_array_equal(frame.positions(l, kept), first)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_moving_frame_rotation_is_matrix_exponential(rotation, rng):
    w, t, l = np.array(ROTATIONS[rotation]), rng.standard_normal(3), rng.standard_normal((4, 3))
    R = expm(np.cross(np.eye(3), w))  # row i: e_i x w, so this is [w]
    expected = np.array(ORIGIN[3]) + t + l @ R.T
    np.testing.assert_allclose(
        FRAMES["space"].positions(l, np.concatenate([t, w])), expected, atol=1e-13
    )


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_frame_derivatives_are_exact_at_every_rotation(rotation, rng):
    """Central differences of order 4: their error is h^4 of the fifth derivative plus round-off eps
    / h, below 1e-11."""
    frame, l, bar, h = (
        FRAMES["space"],
        rng.standard_normal((4, 3)),
        rng.standard_normal((4, 3)),
        2e-3,
    )
    u, du = np.concatenate([rng.standard_normal(3), ROTATIONS[rotation]]), rng.standard_normal(6)
    slope = lambda f: (8 * (f(h) - f(-h)) - f(2 * h) + f(-2 * h)) / (12 * h)
    for a, unit in enumerate(np.eye(6)):
        np.testing.assert_allclose(
            frame.jacobian(l, u)[a],
            slope(lambda e, unit=unit: frame.positions(l, u + e * unit)),
            atol=1e-10,
        )
    pulled = lambda e: np.sum(bar * frame.jacobian(l, u + e * du), axis=(1, 2))
    np.testing.assert_allclose(frame.hessian_vector(l, u, bar, du), slope(pulled), atol=1e-8)


def test_plane_frame_rotates_by_its_angle():
    y = FRAMES["plane"].positions(np.array([[0.5, 0.0]]), np.array([0.1, 0.2, np.pi / 2]))
    np.testing.assert_allclose(y, [[0.4, 0.6]], atol=1e-15)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"origin": (0.0,)}, "origin of a moving frame has 1 number; give 2 .* or 3"),
        ({"origin": (0.0, np.nan, 0.0)}, "origin of a moving frame is nan at entry 1"),
        (
            {"start": (0, 0, 0, 4.0, 0, 0)},
            r"start of a moving frame has 'rotation x' at 4, outside its limits -3.14159 to 3.14159",  # noqa: E501
        ),
        ({"start": (0, 0, 0, np.inf, 0, 0)}, "start of a moving frame is inf at entry 3"),
        ({"start": (0, 0, 0)}, r"start of a moving frame has shape \(3,\)"),
        (
            {"limits": ((1, -1, -1, -1, -1, -1), (1, 1, 1, 1, 1, 1))},
            "lower limit 1 of a moving frame along 'x' is not below",
        ),
        ({"limits": (np.nan, 1.0)}, "lower limit nan of a moving frame along 'x'"),
        ({"limits": ((0, 0), (1, 1))}, "give .lower, upper., each with 6 numbers"),
        ({"limits": 3.0}, "give .lower, upper., each with 6 numbers"),
    ],
)
def test_bad_frame_is_rejected(change, says):
    with pytest.raises(InputError, match=says):
        MovingFrame(**{"origin": ORIGIN[3], **change})
