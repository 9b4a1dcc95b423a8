"""The experiments of [Rodriguez2017]: droop of a beam, column weights, and reachable and
unreachable targets."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import pliant as pl
from pliant.hydrostatics import column_weights, hydrostatic_load, volume_properties
from pliant.zoo.experiments import cylinder_air_water as cylinder
from pliant.zoo.experiments import finger_inverse as finger
from pliant.zoo.experiments import finger_mixed as mixed
from pliant.zoo.experiments import pendulum_hydraulic as pendulum
from pliant.zoo.inverse_report import failures, target_metrics
from pliant.zoo.inverse_tasks import TargetTask, remaining_motion_cosine, visit_targets
from pliant.zoo.registry import find
from pliant.zoo.robots.cylinder import CAP, LENGTH, RADIUS, WALL, tip_angle


@cache
def reach():
    return finger.tip_curves(find("finger-hydraulic").resolve_settings(quick=True))


@cache
def fingers(fluid):
    """Return (task, result) of the finger."""
    target_task = finger.task(find("finger-hydraulic").resolve_settings(quick=True), fluid, reach())
    return target_task, visit_targets(target_task)


@cache
def pendula():
    target_task = pendulum.task(find("pendulum-hydraulic").resolve_settings(quick=True))
    return target_task, visit_targets(target_task)


def length(robot):
    return np.ptp(robot.body().rest.reshape(-1, 3), axis=0).max()


# The cylinder


@cache
def can(fluid, **options):
    return cylinder.cylinder({**find("cylinder-air-water").resolve_settings(), **options}, fluid)


@cache
def hanging(fluid):
    model = pl.Quasistatic(can(fluid))
    return pl.equilibrium(model, model.control_limits()[0]).x


def beam_angle(fluid):
    """Return the end slope [degrees] of a slender cantilever under the weight of wall, cap and
    fluid."""
    inner, g = RADIUS - WALL, 9.81
    EI = 2e5 * np.pi / 4 * (RADIUS**4 - inner**4)
    wall, filled = (
        np.pi * (RADIUS**2 - inner**2) * 1100.0 * g,
        np.pi * inner**2 * g,
    )  # [N/m], the second per kg/m^3
    slope = wall * LENGTH**3 / 6 + 1100.0 * filled * CAP * (LENGTH - CAP / 2) ** 2 / 2
    slope += (1000.0 if fluid == "water" else 0.0) * filled * ((LENGTH - CAP) ** 3 - CAP**3) / 6
    return np.degrees(slope / EI)


def test_cylinder_droop_matches_beam_theory():
    """Linear beam theory overestimates both slopes by the same factor, so their ratio is more
    accurate."""
    angles = {fluid: tip_angle(can(fluid), hanging(fluid)) for fluid in ("air", "water")}
    for fluid, angle in angles.items():
        assert 0.85 < angle / beam_angle(fluid) < 1.0
    assert angles["water"] / angles["air"] == pytest.approx(
        beam_angle("water") / beam_angle("air"), rel=0.03
    )


def test_triangulated_wall_volume_converges_with_second_order():
    body = can("water").body()
    exact = cylinder.rest_volume(can("water"))
    off = [
        exact - volume_properties(*cylinder.wall_points(body, "cavity", halvings)).volume
        for halvings in (1, 2, 3)
    ]
    assert off[0] > 0.0
    np.testing.assert_allclose([off[0] / off[1], off[1] / off[2]], 4.0, rtol=0.05)


def test_column_weights_give_the_exact_droop_and_total_weight():
    air = can("air")
    q, found = cylinder.equilibrium_with_columns(
        air, hanging("water"), air.control_limits()[0], 100
    )
    assert tip_angle(air, q) == pytest.approx(tip_angle(air, hanging("water")), abs=0.2)
    assert abs(tip_angle(air, q) - tip_angle(air, hanging("air"))) > 5.0
    assert found.weights.sum() == pytest.approx(1000.0 * 9.81 * found.volume, rel=1e-12)
    assert found.volume == pytest.approx(cylinder.rest_volume(air), rel=0.01)


def test_pump_adds_15_ml():
    for fluid in ("air", "water"):
        filled = cylinder.fill_slowly(can(fluid), 2)
        assert filled.added[0] == pytest.approx(0.0, abs=2e-8)
        assert filled.added[-1] == pytest.approx(1.5e-5, abs=1e-7)


# The finger


def test_water_filled_finger_is_lower_at_every_pressure():
    below = reach()["air"][:, 2] - reach()["water"][:, 2]
    assert np.all(below > 1e-3)
    for places in reach().values():
        assert np.all(np.diff(places[:, 2]) > 0.0)
        np.testing.assert_allclose(places[:, 1], 0.0, atol=1e-4)


@pytest.mark.parametrize(
    ("fluid", "reached"), [("water", {"low", "far horizontal"}), ("air", {"high"})]
)
def test_each_fluid_reaches_only_its_own_targets(fluid, reached):
    target_task, result = fingers(fluid)
    assert {name for name, visit in result.visits.items() if visit.reached} == reached
    for name in reached:
        assert result.visits[name].pose.error < 1e-4 * length(target_task.robot)
    assert failures(target_task, result) == []
    assert finger.not_closest(reach()[fluid], result) == []
    assert result.limit_violation == 0.0


@pytest.mark.parametrize("fluid", ["water", "air"])
def test_unreachable_targets_give_the_closest_point_for_both_fluids(fluid):
    target_task, result = fingers(fluid)
    assert list(target_task.targets) == list(fingers("water")[0].targets)
    model = pl.Quasistatic(target_task.robot)
    (low,), (high,) = model.control_limits()
    for name in ("far horizontal", "high"):
        visit = result.visits[name]
        np.testing.assert_array_equal(visit.target, fingers("water")[0].targets[name])
        away = lambda p, at=visit.target: np.linalg.norm(
            target_task.robot.effector_position("tip", pl.equilibrium(model, np.array([p])).x) - at
        )
        best = minimize_scalar(
            away, bounds=(low, high), method="bounded", options={"xatol": 1e-4 * high}
        )
        assert visit.pose.error <= best.fun + 1e-6


def test_settled_pose_is_the_equilibrium_found_from_rest():
    for target_task, result in (fingers("water"), pendula()):
        model = pl.Quasistatic(target_task.robot)
        for visit in list(result.visits.values())[:2]:
            true = pl.equilibrium(model, visit.pose.u)
            np.testing.assert_allclose(visit.pose.x, true.x, atol=1e-6 * length(target_task.robot))


# Water and cables


@cache
def mixed_finger():
    settings = find("finger-mixed").resolve_settings(quick=True)
    target_task = mixed.task(settings, reach())
    return target_task, visit_targets(target_task)


def test_water_and_cables_reach_the_targets_of_water_and_of_air():
    target_task, result = mixed_finger()
    assert failures(target_task, result) == []
    for name in finger.REACHABLE_TARGETS:
        assert result.visits[name].pose.error < 1e-8
        q = pl.equilibrium(pl.Quasistatic(target_task.robot), result.visits[name].pose.u).x
        tip = target_task.robot.effector_position("tip", q)
        np.testing.assert_allclose(tip, target_task.targets[name], atol=1e-6)


def test_water_and_cables_come_closer_to_unreachable_targets_than_one_fluid():
    _, result = mixed_finger()
    for name in finger.UNREACHABLE_OFFSETS:
        visit = result.visits[name]
        alone = min(finger.distance_to_curve(line, visit.target) for line in reach().values())
        assert visit.pose.error < 0.5 * alone


def test_opposite_cables_are_not_tense_together():
    _, result = mixed_finger()
    for visit in result.visits.values():
        _, lower, upper = visit.pose.u
        assert min(lower, upper) < 1e-6
        assert max(lower, upper) <= find("finger-mixed").settings["max_tension"]


# The pendulum


def test_walls_of_the_chambers_enclose_their_volumes():
    """Columns and the exact pressure of each chamber have the weight of 10 ml of water."""
    robot = pendulum.pendulum(find("pendulum-hydraulic").resolve_settings(quick=True))
    gravity = np.asarray(robot.gravity)
    for k in range(pendulum.CAVITIES):
        points, triangles = pendulum.wall_surface(robot, k, robot.body().rest)
        exact = hydrostatic_load(points, triangles, density=1000.0, gravity=gravity)
        columns = column_weights(points, triangles, grid=100, density=1000.0, gravity=gravity)
        weight = exact.forces.sum(axis=0) @ gravity / np.linalg.norm(gravity)
        assert weight == pytest.approx(9.81 * 0.01, rel=0.1)
        assert columns.weights.sum() == pytest.approx(weight, rel=1e-3)


def test_pendulum_extends_contracts_and_bends_to_each_side():
    target_task, result = pendula()
    at = {name: visit.pose.positions[0] for name, visit in result.visits.items()}
    assert failures(target_task, result) == []
    assert at["contracted"][2] > at["extended"][2] + 5e-3
    assert at["to +x"][0] > 2e-3
    assert at["to +y"][1] > 1.5e-3
    assert max(at["to -x -y"][:2]) < -1e-3
    assert max(abs(at["to +x"][1]), abs(at["to +y"][0])) < 2e-4
    assert not result.visits["beyond lateral range"].pose.ok
    assert (
        target_metrics(target_task, result)["beyond lateral range: error within tolerance"].value
        is False
    )


# Failure messages


def test_remaining_motion_cosine_ignores_controls_at_limits():
    limits = np.zeros(2), np.ones(2)
    ways, miss = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([3.0, -4.0])
    assert remaining_motion_cosine(ways, miss, np.array([0.5, 0.5]), limits) == pytest.approx(0.8)
    assert remaining_motion_cosine(ways, miss, np.array([0.5, 0.0]), limits) == pytest.approx(
        0.6
    )  # the second control would violate its lower limit
    assert remaining_motion_cosine(ways, miss, np.array([1.0, 0.0]), limits) == 0.0


def test_each_failed_check_has_a_message():
    target_task, result = fingers("water")
    low = result.visits["low"]

    def said(**changes):
        return " ".join(
            failures(
                target_task,
                replace(result, visits={**result.visits, "low": replace(low, **changes)}),
            )
        )

    assert "'low' is within reach" not in said()
    assert "'low' is out of reach" in said(reached=False)
    assert "from equilibrium" in said(equilibrium_error=1e-4)
    assert "outside its limits" in " ".join(
        failures(target_task, replace(result, limit_violation=0.1))
    )
    off = replace(result.visits["high"], remaining_cosine=0.5)
    assert "did not converge to the point closest" in " ".join(
        failures(target_task, replace(result, visits={**result.visits, "high": off}))
    )
    high = result.visits["high"]
    short = replace(high, pose=replace(high.pose, error=high.pose.error + 1e-3))
    assert "is possible" in " ".join(
        finger.not_closest(reach()["water"], replace(result, visits={"high": short}))
    )


@pytest.mark.parametrize(
    "name",
    [
        "cylinder-air-water",
        "finger-hydraulic",
        "finger-pneumatic",
        "finger-mixed",
        "pendulum-hydraulic",
    ],
)
def test_probe_is_a_robot_with_a_tip_and_interior_controls(name):
    experiment = find(name)
    model, x, u = experiment.probe(experiment.resolve_settings(quick=True))
    assert "tip" in model.robot.effectors
    assert x.shape == (model.space.size,)
    lower, upper = model.control_limits()
    assert np.all((lower < u) & (u < upper))


def test_controller_continues_from_target_to_target():
    """The first control step towards the second target starts where the first one was reached."""
    target_task, _ = fingers("water")
    targets = {name: target_task.targets[name] for name in ("far horizontal", "low")}
    result = visit_targets(TargetTask(robot=target_task.robot, targets=targets, transition_steps=2))
    ends = [
        len(result.step_targets) - 1 - np.argmax((result.step_targets == at).all(axis=1)[::-1])
        for at in targets.values()
    ]
    for end, visit in zip(ends, result.visits.values(), strict=True):
        np.testing.assert_array_equal(result.states[end + 1], visit.pose.x)
    assert len(result.states) == len(result.controls) + 1 == len(result.seconds) + 1
