"""Clearance of beams and surfaces from spheres: closed forms, and a bound between time steps."""

import numpy as np
import pytest

from pliant.zoo.clearance import (
    beam_clearance,
    clearance_over_time,
    rings,
    sphere_clearance,
    surface_clearance,
)

SPHERE = np.array([[0.3, 0.0, 0.5, 0.1]])


@pytest.mark.parametrize(
    ("corners", "clearance"),
    [
        ([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]], 0.2),  # a vertical beam, nearest in its middle
        ([[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]], 0.4),  # it ends before: 0.3, 0.4, 0.5
        ([[0.0, 0.0, 0.5], [0.6, 0.0, 0.5]], -0.1),  # through the centre
        ([[-1.0, -1.0, 0.2], [1.0, -1.0, 0.2], [0.0, 2.0, 0.2]], 0.2),  # a triangle below
    ],
)
def test_sphere_clearance_matches_closed_forms(corners, clearance):
    assert sphere_clearance(np.array([corners]), SPHERE) == pytest.approx(clearance, abs=1e-14)


def test_beam_that_passes_a_sphere_between_steps_is_found():
    """Both steps are 0.2 m clear of the sphere, the beam between them crosses it."""
    beams = np.array([[[0.3, y, 0.0], [0.3, y, 1.0]] for y in (-0.9, -0.6, -0.3, 0.3, 0.6, 0.9)])
    at_steps = min(sphere_clearance(beam[None], SPHERE) for beam in beams)
    assert at_steps == pytest.approx(0.2)
    assert beam_clearance(beams, SPHERE) <= -0.1


@pytest.mark.parametrize("pieces", [4, 16])
def test_clearance_over_time_is_a_lower_bound(rng, pieces):
    """A beam turns and sways around the sphere; the bound is below a fine sampling, and it
    approaches it with more steps."""

    def beams(t, phase):
        x = 0.1 + 0.12 * np.sin(2.0 * t + phase)
        return np.stack(
            [
                np.stack([0.3 * x, 0.1 * np.cos(3.0 * t), 0.0 * t], axis=-1),
                np.stack([x, 0.2 * np.cos(t), 1.0 + 0.0 * t], axis=-1),
            ],
            axis=-2,
        )

    f = lambda ends: sphere_clearance(ends[None], SPHERE)
    for phase in rng.uniform(0.0, 6.0, 5):
        true = min(f(ends) for ends in beams(np.linspace(0.0, 6.0, 20_000), phase))
        bounds = [
            clearance_over_time(f, beams(np.linspace(0.0, 6.0, steps + 1), phase), pieces=pieces)
            for steps in (20, 40, 320)
        ]
        assert all(bound <= true + 1e-12 for bound in bounds)
        assert true - bounds[0] > true - bounds[1] > true - bounds[2]
        assert true - bounds[2] < 0.01


def test_surface_clearance_is_that_of_a_moving_plate():
    plate = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    triangles = np.array([[0, 1, 2], [0, 2, 3]])
    rise = np.linspace(0.0, 0.35, 8)
    nodes = plate + np.array([0.0, 0.0, 1.0]) * rise[:, None, None]
    nodes = np.concatenate([nodes, np.full((8, 1, 3), 0.3)], axis=1)  # an unused node in between
    bound = surface_clearance(nodes, triangles, SPHERE)
    assert bound == pytest.approx(0.05, abs=0.01)
    assert bound <= 0.05 + 1e-12


def test_rings_lie_on_their_sphere():
    for ring in rings(SPHERE):
        np.testing.assert_allclose(np.linalg.norm(ring - SPHERE[0, :3], axis=1), 0.1, atol=1e-15)
        np.testing.assert_allclose(ring[0], ring[-1], atol=1e-15)
