"""Invalid material point models and steps give one error with the value and the remedy, before the
run or in the failed step."""

import re
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

import pliant as pl
from pliant.actuators import Fluidic, Muscle
from pliant.core import InputError, StepError
from pliant.geometry import Rectangle
from pliant.zoo.robots import biped

SQUARE = Rectangle(size=(0.1, 0.1))
SOFT = pl.Material(E=1e4, nu=0.3)
GROUND = [pl.Contact(obstacle=pl.plane((0, 1)), friction=0.3)]


def robot(**changed):
    return pl.Robot(
        **({"shape": SQUARE, "material": SOFT, "order": 1, "divisions": (2, 2)} | changed)
    )


def model(of=None, **options):
    return pl.MaterialPoint(of or robot(), **({"dt": 0.01, "cell": 0.025} | options))


def driven(actuator):
    return robot(actuators={"line": actuator})


def first_step(of, x=None, u=(), p=None):
    return of.step(of.initial_state() if x is None else x, u, p)


def pulled(of):
    return of.pullback(first_step(of), np.ones(of.space.size))


def taut(stiffness):
    return pl.Cable(points=[[0.02, 0.05], [0.08, 0.05]], drive="length", stiffness=stiffness)


TINY = Rectangle(size=(0.001, 0.001))
BUILD = {
    "unstable": (
        lambda: model(substeps=1),
        r"substep of 0\.01 s is not stable.* in 0\.0068\d? s\. Take substeps=3, that is 0\.00333 s",
    ),
    "unstable by viscosity": (
        lambda: model(robot(damping=pl.Damping(stiffness=0.1)), substeps=3),
        r"not stable.*Take substeps=",
    ),
    "a body of another kind": (
        lambda: model(body=3),
        r"The body is '3' \(int\); leave it out",
    ),
    "substeps of 0": (
        lambda: model(substeps=0),
        "substeps is '0'; it must be an integer of 1 or more",
    ),
    "substeps of 2.5": (
        lambda: model(substeps=2.5),
        r"substeps is '2\.5'; it must be an integer",
    ),
    "dt of 0": (lambda: model(dt=0.0), "dt is 0 s; it must be a positive"),
    "cell of 0": (lambda: model(cell=0.0), "cell is 0 m; it must be a positive"),
    "cell above the body": (
        lambda: model(cell=0.2),
        r"cell is 0\.2 m, but the whole body is 0\.1 m long; take a quarter",
    ),
    "cell far too small": (
        lambda: model(cell=1e-6),
        r"particles, over the limit of 5000000; choose about",
    ),
    "no particle inside": (
        lambda: model(
            robot(shape=pl.geometry.Annulus(outer=0.1, inner=0.099), divisions=None, cell=0.02),
            cell=0.1,
        ),
        r"No particle lies inside the mesh at a spacing of 0\.05 m; choose about .* or less",
    ),
    "per_cell of 0": (lambda: model(per_cell=0), "'0' particles along a cell; take 2, or 4"),
    "precision": (lambda: model(precision="float16"), "no precision 'float16'; did you mean"),
    "seeding": (lambda: model(seeding="jiter"), "did you mean 'jitter'"),
    "memory as text": (
        lambda: model(memory="1GB"),
        r"memory is '1GB'; it must be a number \[bytes\]",
    ),
    "memory of nothing": (
        lambda: model(memory=nan),
        "is nan bytes; give a positive number, or None",
    ),
    "nu of one half": (lambda: pl.Material(E=1e4, nu=0.5), r"0\.5, both excluded.*use nu = 0\.49"),
    "density of 0": (
        lambda: pl.Material(E=1e4, nu=0.3, density=0.0),
        "density is 0 kg/m.3; it must be a positive",
    ),
    "not a robot": (
        lambda: pl.MaterialPoint(3, dt=0.01, cell=0.01),
        "robot is '3'.*make one with pliant.Robot",
    ),
    "point mass": (
        lambda: model(pl.Robot(shape=pl.PointMass(points=[[0.0, 0.0]]))),
        "robot is a PointMass, which has no mesh; give a solid shape",
    ),
    "gravity of space": (
        lambda: model(robot(gravity=(0, 0, -9.81))),
        r"Gravity has shape \(3,\); give numbers \[m/s\^2\] of shape \(2,\)",
    ),
    "plane of space": (
        lambda: model(robot(contacts=[pl.Contact(obstacle=pl.plane((0, 0, 1)))])),
        "does not fit a body in 2 dimensions",
    ),
    "moving support": (
        lambda: model(robot(supports=[pl.Support(region="x-", motion=lambda t: np.zeros(2))])),
        "support on 'x-' moves, which .*; remove its motion, or use ImplicitEuler",
    ),
    "support along z": (
        lambda: model(robot(supports=[pl.Support(region="x-", axes="z")])),
        "along 'z' holds nothing.*other axes",
    ),
    "support on nothing": (
        lambda: model(robot(supports=[pl.Support(region="w-")])),
        "no surface or region 'w-'; it has x-, x",
    ),
    "support on cells": (
        lambda: model(robot(supports=[pl.Support(region="body")])),
        "holds surfaces only; name one of x-, x",
    ),
    "muscle without particles": (
        lambda: model(driven(Muscle(region=TINY, axis=(1, 0)))),
        "'line': .* contains no cell or particle.*larger",
    ),
    "fluid without particles": (
        lambda: model(driven(Fluidic(region=TINY))),
        "Actuator 'line': .* contains no cell or particle",
    ),
    "cable outside": (
        lambda: model(driven(pl.Cable(points=[[0.05, 0.05], [0.5, 0.5]]))),
        "Actuator 'line': .*Move it to the nearest point",
    ),
    "effector outside": (
        lambda: model(robot(effectors={"tip": pl.Effector(point=(1.0, 1.0))})),
        "outside the mesh",
    ),
    "effector by a wrong name": (
        lambda: model(robot(effectors={"tip": pl.Effector(surface="x+")})).effector_rows("top"),
        "did you mean 'tip'",
    ),
    "design by a wrong name": (
        lambda: model(design=["body.F"]),
        r"no parameter 'body\.F'\. This robot has body\.E.*cells\.volume",
    ),
    "design as text": (
        lambda: model(design="body.E"),
        r"Pass a list of different names such as \['body\.E'\]",
    ),
    "seed of the jitter": (
        lambda: model(seeding="jitter", rng_seed=-1),
        "seed of the jitter is '-1'; it must be an integer",
    ),
    "unstable by a cable": (
        lambda: model(driven(taut(1e7)), substeps=3),
        r"not stable: .* and the actuators oscillate in [\d.e-]+ s\. Take substeps=\d+",
    ),
    "design twice": (
        lambda: model(design=["cells.volume", "cells.volume"]),
        "Pass a list of different names",
    ),
}


@pytest.mark.parametrize("what", BUILD)
def test_invalid_model_raises_a_clear_error(what):
    make, says = BUILD[what]
    with pytest.raises(InputError, match=says):
        make()


def test_body_inside_obstacle_at_start_warns():
    with pytest.warns(
        UserWarning, match=r"penetrates an obstacle by 0\.0(4|5)\d* m, .* start it outside"
    ):
        model(robot(contacts=[pl.Contact(obstacle=pl.plane((0, 1), height=0.05))]))


def test_cell_as_large_as_body_thickness_warns():
    with pytest.warns(
        UserWarning, match=r"body about 0\.0\d+ m thick.*take a quarter of its thickness"
    ):
        model(robot(shape=Rectangle(size=(0.2, 0.02)), divisions=(4, 1)), cell=0.04)


def test_stiff_cable_needs_more_substeps_and_soft_cable_does_not():
    few, soft, stiff = (
        model(of).substeps for of in (robot(), driven(taut(10.0)), driven(taut(1e7)))
    )
    assert few == soft < stiff


def test_stiff_cable_with_default_substeps_is_stable():
    tied = model(driven(taut(1e7)))
    run = pl.simulate(tied, np.full((20, 1), 0.99))
    assert np.abs(tied.space.velocity(run.states[-1])).max() < 0.5


@pytest.mark.parametrize("transfer", ["updated", "total"])
@pytest.mark.parametrize("name", ["body.density", "cells.volume"])
def test_step_refuses_parameters_that_make_a_stiff_cable_unstable(name, transfer):
    """Its frequency rises with 1 / sqrt(mass). With the substeps that the message names, the
    kinetic energy stays below the first energy of the cable, which is 1 % too long."""
    tied = model(driven(taut(1e6)), design=[name], transfer=transfer)
    x, p = tied.initial_state(), 0.1 * tied.params.flat
    assert tied.step(x, [0.99], tied.params.flat).status
    status = tied.step(x, [0.99], p).status
    assert not status
    more = model(
        driven(taut(1e6)),
        design=[name],
        transfer=transfer,
        substeps=int(re.search(r"take substeps=(\d+)", status.text)[1]),
    )
    run = pl.simulate(more, np.full((20, 1), 0.99), p=p)
    mass = 0.1 * more.body.fields.density * more.body.volumes()
    speeds = [np.linalg.norm(more.particles(x).velocity, axis=1) for x in run.states]
    kinetic = [0.5 * mass @ speed**2 for speed in speeds]
    assert 0.0 < max(kinetic) < 0.5 * 1e6 * (0.01 * 0.06) ** 2


def test_costly_stiffness_damping_warns_and_remedy_takes_twice_the_substeps():
    undamped, damped = model().substeps, robot(damping=pl.Damping(stiffness=0.1))
    with pytest.warns(UserWarning, match=f"in place of {undamped} without") as caught:
        costly = model(damped)
    assert costly.substeps > 10 * undamped
    assert f"takes {costly.substeps} substeps" in str(caught[0].message)
    cheap = float(re.search(r"at most (\S+) s", str(caught[0].message))[1])
    again = model(robot(damping=pl.Damping(stiffness=cheap)))
    assert again.substeps <= 2.5 * undamped


@pytest.mark.parametrize("per_cell", [1, 2, 3, 4])
@pytest.mark.filterwarnings("ignore:One particle along a cell")
def test_biped_substeps_do_not_depend_on_particles_per_cell(per_cell):
    """With an odd number, some grid nodes have exactly zero weight from the last particle."""
    walker = pl.MaterialPoint(biped(), dt=0.02, cell=0.02, per_cell=per_cell)
    assert walker.substeps in (17, 18)
    assert walker.step(walker.initial_state(), walker.neutral_controls()).status


def test_effector_position_error_for_particles_names_effector_rows():
    tip = robot(effectors={"tip": pl.Effector(surface="x+")})
    of = model(tip)
    with pytest.raises(
        InputError,
        match=r"positions has 128 numbers, but the body of .*model\.effector_rows\('tip'\)",
    ):
        tip.effector_position("tip", of.space.position(of.initial_state()))
    assert repr(of).startswith("<MaterialPoint of")
    assert "64 particles" in repr(of)


def test_parameters_too_stiff_for_substeps_fail_the_step():
    step = first_step(model(design=["body.E"]), p=[1e7])
    assert not step.status
    assert "With these parameters a wave crosses a cell" in step.status.text
    assert (
        f"take substeps={model(robot(material=pl.Material(E=1e7, nu=0.3))).substeps}"
        in step.status.text
    )


def test_one_particle_per_cell_edge_warns():
    with pytest.warns(
        UserWarning,
        match=r"One particle along a cell is too few.*Take per_cell=2",
    ):
        model(per_cell=1)


STEP = {
    "state of another size": (
        lambda: first_step(model(), np.zeros(3)),
        r"state .* has shape \(3,\); give numbers of shape \(768,\)",
    ),
    "state with NaN": (
        lambda: first_step(model(), np.full(768, nan)),
        "state .* is nan at entry 0; it must be finite",
    ),
    "controls of another size": (
        lambda: first_step(model(), u=[1.0]),
        r"control has shape \(1,\); give numbers of shape \(0,\)",
    ),
    "controls with NaN": (
        lambda: first_step(model(driven(Fluidic(region="body"))), u=[nan]),
        "control is nan at entry 0",
    ),
    "controls without end": (
        lambda: first_step(model(driven(Fluidic(region="body"))), u=[inf]),
        "control is inf at entry 0",
    ),
    "too far away": (
        lambda: first_step(model(), model().initial_state() + 1e30),
        r"1e\+30 m from the origin.*move the body closer",
    ),
    "not one body": (
        lambda: first_step(model(), model().state(1e6 * model().body.rest)),
        "far too small.*not one body",
    ),
    "positions of another size": (
        lambda: model().state(np.zeros(4)),
        r"position has shape \(4,\); give numbers \[m\] of shape \(128,\)",
    ),
    "nu of one half": (
        lambda: first_step(model(design=["body.nu"]), p=[0.5]),
        r"body\.nu\[0\] = 0\.5 - must lie between -1 and 0\.5",
    ),
    "density of 0": (
        lambda: first_step(model(design=["cells.density"]), p=np.zeros(64)),
        r"density\[0\] = 0 kg/m\^3 must lie between 0",
    ),
    "volume of 0": (
        lambda: first_step(model(design=["cells.volume"]), p=np.zeros(64)),
        r"volume\[0\] = 0 m\^3 must lie between 0",
    ),
    "friction below 0": (
        lambda: first_step(model(robot(contacts=GROUND), design=["contact0.friction"]), p=[-0.1]),
        "must lie between 0 and 1e[+]06",
    ),
    "memory too small": (
        lambda: pulled(model(memory=1000.0)),
        r"is 1000 bytes, .*; give memory=\d+ or more",
    ),
    "gradient of another size": (
        lambda: (m := model()).pullback(first_step(m), np.ones(3)),
        r"x_bar has shape \(3,\)",
    ),
    "step of another model": (
        lambda: model().pullback(first_step(model()), np.ones(768)),
        "was made by another model",
    ),
    "no statics": (lambda: pl.equilibrium(model(), []), "make one with Quasistatic"),
}


@pytest.mark.parametrize("what", STEP)
def test_invalid_step_raises_a_clear_error(what):
    do, says = STEP[what]
    with pytest.raises(InputError, match=says):
        do()


# A failure during a step is a status; the step returns its initial or its last state


def muscled(**options):
    return model(driven(Muscle(region="body", axis=(1, 0))), **options)


@pytest.mark.parametrize(
    ("u", "says"),
    [
        (
            5e4,
            r"blew up by substep 3 of 3: a particle's state is not finite.*take substeps=6, or smaller controls",  # noqa: E501
        ),
        (
            1e9,
            r"moves more than 5 cells in a step of 0\.01 s; take a smaller dt, smaller controls or more than 3 substeps",  # noqa: E501
        ),
        (1e300, r"blew up|moves more than"),
        (
            -1e5,
            r"crosses [\d.]+ cells in a substep; take substeps=\d+ or more, or smaller controls|moves more than",  # noqa: E501
        ),
    ],
)
def test_step_with_far_too_large_control_fails(u, says):
    of = muscled()
    x = of.initial_state()
    step = of.step(x, [u])
    assert not step.status
    np.testing.assert_array_equal(np.isfinite(step.x), True)
    with pytest.raises(StepError, match=f"Step 0 failed: .*({says})"):
        pl.simulate(of, np.array([[u]]))
    with pytest.raises(InputError, match="no derivative, because it failed"):
        of.pullback(step, np.ones(of.space.size))


def test_step_that_tears_body_apart_fails():
    """Two halves separate at 12 m/s, faster than the wave speed of 3.7 m/s, until they share no
    grid node."""
    of = model(dt=0.002)
    at = of.body.rest.reshape(-1, 2)
    x = of.state(of.body.rest, (np.sign(at[:, :1] - 0.05) * [6.0, 0.0]).ravel())
    says = r"Step 6 failed: The body tears numerically: particles \d+ and \d+ were neighbours and are 2.6 cells apart.*take a larger cell"  # noqa: E501
    with pytest.raises(StepError, match=says):
        pl.simulate(of, np.zeros((20, 0)), x0=x)
    earlier = replace(of, max_gap=1.0)
    with pytest.raises(StepError, match=r"Step 2 failed: .* are 1\.\d+ cells apart"):
        pl.simulate(earlier, np.zeros((20, 0)), x0=x)


@pytest.mark.parametrize("gap", [0.0, -1.0, 3.0, np.nan])
def test_largest_gap_out_of_range_is_an_error(gap):
    with pytest.raises(InputError, match=r"[Tt]he largest gap"):
        model(max_gap=gap)


@pytest.mark.parametrize("transfer", ["updated", "total"])
def test_neighbour_gap_is_the_stretch_times_the_spacing(transfer):
    of = model(transfer=transfer)
    x = of.state((of.body.rest.reshape(-1, 2) * [1.7, 1.0]).ravel())
    assert of.neighbour_gap(of.initial_state()) == pytest.approx(0.5 * of.cell)
    assert of.neighbour_gap(x) == pytest.approx(1.7 * 0.5 * of.cell)


def test_step_that_tears_the_body_from_its_support_fails():
    """A soft bar hangs by its end. Its particles stay together, but the first row leaves the nodes
    that hold it."""
    bar = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.02, 0.1)),
        cell=0.02,
        gravity=(0.0, -9.81),
        material=pl.Material(E=1200.0, nu=0.3, density=1000.0),
        supports=[pl.Support(region="y+")],
        damping=pl.Damping(mass=5.0),
    )
    of = pl.MaterialPoint(bar, dt=0.01, cell=0.005, per_cell=4, substeps=200)
    says = r"tears numerically from its support on 'y\+': particle \d+.*more than 1.5 cells away"
    with pytest.raises(StepError, match=says):
        pl.simulate(of, np.zeros((60, 0)))


def test_step_that_inverts_a_particle_fails():
    of = model(robot(material=pl.Material(E=1e4, nu=0.3, law="fixed-corotated")))
    F = np.tile(np.eye(2), (of.body.n_particles, 1, 1))
    F[7] = np.diag([-0.5, 1.0])
    step = of.step(of.state(of.body.rest, None, None, F), [])
    assert not step.status
    assert (
        f"Particle 7, at {of.space.position(step.x)[14:16].round(4)} m, is inverted; "
        "take more substeps" in step.status.text
    )


def test_grid_follows_body_that_falls_many_cells_in_one_step():
    """The grid is small at rest. It is enlarged until it contains the motion, or the step reports
    that the distance is too long."""
    soft = robot(material=pl.Material(E=100.0, nu=0.3), gravity=(0, -9.81))
    of = model(soft, dt=0.1, cell=0.00625, substeps=40)
    step = of.step(of.initial_state(), [])
    assert step.status, step.status.text
    fall = (of.space.position(step.x) - of.body.rest)[1::2]
    np.testing.assert_allclose(fall, -9.81 * 0.0025**2 * 40 * 41 / 2, rtol=1e-9)
    assert fall[0] < -7 * of.cell
    too_far = model(soft, dt=1.0, cell=0.00625).step(of.initial_state(), [])
    assert "moves more than 64 cells in a step of 1 s; take a smaller dt" in too_far.status.text
