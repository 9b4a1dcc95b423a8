"""Bad materials, robots and steps raise one error with the value, the place and the remedy, without
NaN."""

import warnings
from math import inf, nan

import numpy as np
import pytest

import pliant as pl
from pliant.contact import terrain
from pliant.robot import MomentLoad, Patch
from pliant.robot_files import Keyframes
from pliant.zoo.registry import find

BOX = pl.Box(size=(0.1, 0.02, 0.02))
SOFT = pl.Material(E=1e5, nu=0.4)
CLAMPED = (pl.Support(region="x-"),)
END = (0.1, 0.01, 0.01)
LINE = ((0.0, 0.01, 0.01), END)


def robot(**changed) -> pl.Robot:
    sound = {
        "shape": BOX,
        "material": SOFT,
        "supports": CLAMPED,
        "divisions": (4, 1, 1),
        "order": 1,
    }
    return pl.Robot(**(sound | changed))


def flat(**changed) -> pl.Robot:
    return robot(shape=pl.geometry.Rectangle(size=(0.1, 0.02)), divisions=(4, 1), **changed)


def cabled(**changed) -> pl.Robot:
    return robot(actuators={"tendon": pl.Cable(**({"points": LINE} | changed))})


def model(of: pl.Robot | None = None, **options):
    return pl.ImplicitEuler(of or robot(), **({"dt": 0.01} | options))


def adjoint(x_bar):
    m = model()
    return m.pullback(m.step(m.initial_state(), []), x_bar)


def stepped(of, *, x=None, u=None, p=None):
    """Simulate one step. `simulate` raises if the step fails."""
    dynamics = model(of) if isinstance(of, pl.Robot) else of
    u = np.zeros(dynamics.n_controls) if u is None else u
    return pl.simulate(dynamics, lambda k, x: u, steps=1, x0=x, p=p)


def touching(obstacle, **options):
    return stepped(robot(contacts=[pl.Contact(obstacle=obstacle, **options)]))


def pushed(**load):
    return stepped(robot(loads=[pl.PointLoad(**({"point": END, "force": (0, 0, 1)} | load))]))


GROUND = pl.plane((0, 0, 1))


def nan_below(height):
    """Return an obstacle whose distance is NaN below a height [m]."""

    def distance(y):
        d, n, H = GROUND(y)
        return np.where(y[:, 2].real < height, nan, d), n, H

    return distance


NAN_UNDERGROUND = pl.Contact(obstacle=nan_below(0.0))
MATERIALS = {
    "E zero": (lambda: pl.Material(E=0, nu=0.3), r"E is 0 Pa"),
    "E negative": (lambda: pl.Material(E=-1e5, nu=0.3), r"-100000 Pa"),
    "E nan": (lambda: pl.Material(E=nan, nu=0.3), r"nan Pa"),
    "E infinite": (lambda: pl.Material(E=inf, nu=0.3), r"inf Pa"),
    "E as text": (lambda: pl.Material(E="soft", nu=0.3), r"soft"),
    "nu one half": (lambda: pl.Material(E=1e5, nu=0.5), r"0\.5; it must lie between -1 and 0\.5"),
    "nu minus one": (lambda: pl.Material(E=1e5, nu=-1), r"ratio is -1"),
    "nu nan": (lambda: pl.Material(E=1e5, nu=nan), r"ratio is nan"),
    "density zero": (lambda: pl.Material(E=1e5, nu=0.3, density=0), r"density is 0 kg/m\^3"),
    "density nan": (lambda: pl.Material(E=1e5, nu=0.3, density=nan), r"density is nan"),
    "E of no material": (
        lambda: pl.Material(E=1e20, nu=0.3),
        r"1e\+20 Pa.*between 1e-06 and 1e\+15",
    ),
    "E beyond numbers": (lambda: pl.Material(E=1e300, nu=0.3), r"1e\+300 Pa.*Check its unit"),
    "E below all": (lambda: pl.Material(E=1e-300, nu=0.3), r"1e-300 Pa.*softest gel has 100"),
    "density of a star": (lambda: pl.Material(E=1e5, nu=0.3, density=1e300), r"1e\+300 kg/m\^3"),
    "density of nothing": (lambda: pl.Material(E=1e5, nu=0.3, density=1e-300), r"1e-300 kg/m\^3"),
    "default and body": (
        lambda: robot(material={"body": SOFT, "default": SOFT}).body(),
        r"'default' and 'body'.*Keep one",
    ),
    "law unknown": (lambda: pl.Material(E=1e5, nu=0.3, law="hooke"), r"'hooke'.*neo-hookean"),
    "power one": (lambda: pl.Material(E=1e5, nu=0.3, power=1), r"power is '1'"),
    "power nan": (lambda: pl.Material(E=1e5, nu=0.3, power=nan), r"power is 'nan'"),
    "gradient of 2 x 2": (lambda: SOFT.stress(np.eye(2)), r"\(2, 2\)"),
    "gradient nan": (lambda: SOFT.stress(np.full((3, 3), nan)), r"nan|finite"),
    "no material": (lambda: robot(material={}).body(), r"no material"),
    "material of no region": (lambda: robot(material={"hand": SOFT}).body(), r"'hand'.*body"),
    "material as number": (lambda: robot(material=3).body(), r"3"),
}
ATTACHED = {
    "order three": (lambda: robot(order=3).body(), r"order.* is 3"),
    "plane without thickness": (lambda: flat(thickness=0).body(), r"thickness is 0 m"),
    "cable with one point": (lambda: pl.Cable(points=[(0, 0, 0)]), r"has 1"),
    "cable of points in a row": (lambda: pl.Cable(points=(0, 0, 0)), r"cable"),
    "cable of uneven points": (lambda: pl.Cable(points=[(0, 0, 0), (0, 0)]), r"cable"),
    "cable through nan": (lambda: pl.Cable(points=[(0, 0, 0), (nan, 0, 0)]), r"nan|not finite"),
    "cable outside": (
        lambda: stepped(cabled(points=[END, (0.2, 0.01, 0.01)])),
        r"'tendon'.*point 1 at \[0\.2, 0\.01, 0\.01\] m",
    ),
    "cable of coinciding points": (
        lambda: stepped(cabled(points=[END, END])),
        r"'tendon'.*0 and 1 coincide",
    ),
    "cable in the plane": (lambda: stepped(cabled(points=[(0, 0), (0.1, 0)])), r"'tendon'.*3D"),
    "cable guide in the plane": (lambda: stepped(cabled(guide=(1, 0))), r"guide.*\(2,\)"),
    "cable guide nan": (lambda: stepped(cabled(guide=(nan, 0, 0))), r"guide.*nan"),
    "cable limits swapped": (lambda: pl.Cable(points=LINE, limits=(8, 0)), r"8 .*not below.* 0"),
    "cable limits not a number": (
        lambda: pl.Cable(points=LINE, limits=(float("nan"), 1)),
        r"nan, 1.*give two numbers",
    ),
    "cable that pushes": (
        lambda: pl.Cable(points=LINE, limits=(-5, 8)),
        r"lower limit of a cable's tension is -5; a cable can only pull",
    ),
    "cable of negative length": (
        lambda: pl.Cable(points=LINE, limits=(-0.1, 1), drive="length"),
        r"free length is -0\.1",
    ),
    "cable of one limit": (lambda: pl.Cable(points=LINE, limits=(8,)), r"8"),
    "cable drive": (lambda: pl.Cable(points=LINE, drive="motor"), r"'motor'"),
    "cable stiffness": (lambda: pl.Cable(points=LINE, stiffness=-1), r"-1 N/m"),
    "thrust limits swapped": (
        lambda: pl.actuators.Thrust(point=END, limits=(1, -1)),
        r"1 .*not below.* -1",
    ),
    "thrust outside": (
        lambda: stepped(robot(actuators={"fan": pl.actuators.Thrust(point=(9, 0, 0))})),
        r"'fan'.*\[9\.0",
    ),
    "thrust at a number": (
        lambda: stepped(robot(actuators={"fan": pl.actuators.Thrust(point=1.0)})),
        r"point",
    ),
    "unknown region": (
        lambda: stepped(robot(supports=[pl.Support(region="x--")])),
        r"'x--'; it has .* Did you mean 'x-'",
    ),
    "support axes": (lambda: pl.Support(region="x-", axes="w"), r"'x-' are 'w'"),
    "support across the plane": (
        lambda: stepped(flat(supports=[pl.Support(region="x-", axes="z")])),
        r"'z'",
    ),
    "support motion nan": (
        lambda: stepped(robot(supports=[pl.Support(region="x-", motion=lambda t: (nan, 0, 0))])),
        r"t = 0\.01 s",
    ),
    "support motion in the plane": (
        lambda: stepped(robot(supports=[pl.Support(region="x-", motion=lambda t: (0, 0))])),
        r"motion.*3",
    ),
    "effector twice": (lambda: pl.Effector(point=END, surface="x+"), r"exactly one"),
    "effector nowhere": (lambda: pl.Effector(), r"exactly one"),
    "effector outside": (
        lambda: pl.Effector(point=(1, 0, 0)).attach(robot().body()),
        r"\[1\.0, 0\.0, 0\.0\] m",
    ),
    "effector on no surface": (
        lambda: pl.Effector(surface="x").attach(robot().body()),
        r"'x'; it has x-",
    ),
    "load of two numbers": (lambda: pushed(force=(0, 1)), r"force.*3"),
    "load nan": (lambda: pushed(force=(0, nan, 0)), r"force.*nan"),
    "load as text": (lambda: pushed(force="hard"), r"hard"),
    "load outside": (lambda: pushed(point=(1, 0, 0)), r"\[1\.0, 0\.0, 0\.0\] m"),
    "traction of a number": (
        lambda: stepped(robot(loads=[pl.SurfaceLoad(surface="x+", traction=5)])),
        r"'x\+'.*(5|shape)",
    ),
    "traction on no surface": (
        lambda: stepped(robot(loads=[pl.SurfaceLoad(surface="tip", traction=(0, 1, 0))])),
        r"'tip'; it has",
    ),
    "gravity of two numbers": (lambda: stepped(robot(gravity=(0, -9.81))), r"[Gg]ravity.*3"),
    "gravity nan": (lambda: stepped(robot(gravity=(0, 0, nan))), r"[Gg]ravity.*nan"),
    "damping negative": (lambda: pl.Damping(mass=-1), r"mass damping is -1"),
    "damping nan": (lambda: pl.Damping(stiffness=nan), r"stiffness damping is nan"),
    "friction negative": (
        lambda: pl.Contact(obstacle=pl.plane((0, 0, 1)), friction=-0.1),
        r"-0\.1",
    ),
    "contact without stiffness": (
        lambda: pl.Contact(obstacle=pl.plane((0, 0, 1)), stiffness=0),
        r"0 Pa/m",
    ),
    "contact of no surface": (
        lambda: touching(pl.plane((0, 0, 1)), surface="sole"),
        r"'sole'; it has",
    ),
    "normal zero": (lambda: pl.plane((0, 0, 0)), r"normal.*0"),
    "normal infinite": (lambda: pl.plane((0, 0, inf)), r"normal.*inf"),
    "friction beyond numbers": (lambda: pl.Contact(obstacle=GROUND, friction=1e300), r"1e\+300; "),
    "friction infinite": (lambda: pl.Contact(obstacle=GROUND, friction=inf), r"inf; it must"),
    "damping beyond numbers": (
        lambda: pl.Damping(stiffness=1e300),
        r"stiffness damping is 1e\+300",
    ),
    "gravity beyond numbers": (lambda: robot(gravity=(0, 0, -1e300)), r"gravity is 1e\+300 m/s"),
    "mass damping beyond numbers": (lambda: pl.Damping(mass=1e300), r"mass damping is 1e\+300 1/s"),
    "plane far away": (lambda: pl.plane((0, 0, 1), 1e200), r"height is 1e\+200 m.*1e\+09 m"),
    "sphere far away": (lambda: pl.sphere((0, 1e200, 0), 1), r"centre is 1e\+200 m"),
    "sphere too large": (lambda: pl.sphere((0, 0, 0), 1e300), r"radius is 1e\+300 m"),
    "capsule too long": (lambda: pl.capsule((0, 0, 0), (0, 0, 1e200), 1), r"end is 1e\+200"),
    "capsule too short": (lambda: pl.capsule((0, 0, 0), (0, 0, 1e-200), 1), r"use a sphere"),
    "terrain too high": (
        lambda: terrain([0, 1e200, 0], 1.0),
        r"heights of a terrain is 1e\+200",
    ),
    "terrain too wide": (lambda: terrain([0, 1, 0], 1e200), r"spacing of a terrain is"),
    "distance nan": (lambda: touching(nan_below(1.0)), r"distance function.*nan at \[.*\] m"),
    "distance nan on the way": (
        lambda: pl.simulate(
            model(robot(supports=(), gravity=(0, 0, -9.81), contacts=[NAN_UNDERGROUND])),
            lambda k, x: np.zeros(0),
            steps=30,
        ),
        r"distance function.*nan at",
    ),
    "support of nothing": (lambda: pl.Support(), r"exactly one of region.*box.*nodes"),
    "support of a region and a box": (
        lambda: pl.Support(region="x-", box=((0, 0, 0), (1, 1, 1))),
        r"exactly one",
    ),
    "support of half a box": (lambda: pl.Support(box=((0, 0, 0),)), r"box of a support.*\(2, "),
    "support of a swapped box": (
        lambda: pl.Support(box=((1, 0, 0), (0, 1, 1))),
        r"lower corner.*swap",
    ),
    "support of an empty box": (
        lambda: stepped(robot(supports=[pl.Support(box=((1, 1, 1), (2, 2, 2)))])),
        r"No node lies in the box.*span \[0",
    ),
    "support of a flat box": (
        lambda: stepped(robot(supports=[pl.Support(box=((0, 0), (1, 1)))])),
        r"box of a support have 2 numbers, but the body is 3D",
    ),
    "support of nodes that are not there": (
        lambda: stepped(robot(supports=[pl.Support(nodes=[0, 99])])),
        r"node 99, but the nodes are 0 to 19",
    ),
    "support of negative nodes": (lambda: pl.Support(nodes=[-1]), r"numbers, counted from 0"),
    "support of no nodes": (lambda: pl.Support(nodes=[]), r"numbers, counted from 0"),
    "supports that move apart": (
        lambda: stepped(
            robot(
                supports=[
                    pl.Support(region="x-", motion=lambda t: (t, 0, 0)),
                    pl.Support(region="x-", motion=lambda t: (-t, 0, 0)),
                ]
            )
        ),
        r"'x-' and on 'x-'.*0\.02 m apart at t = 0\.01 s.*same motion",
    ),
    "moment at a point of a solid": (
        lambda: stepped(robot(loads=[MomentLoad(point=END, moment=(0, 1, 0))])),
        r"no rotation.*give a surface",
    ),
    "moment nowhere": (lambda: MomentLoad(moment=(0, 1, 0)), r"give one of the two"),
    "moment of two numbers": (
        lambda: stepped(robot(loads=[MomentLoad(surface="x+", moment=(0, 1))])),
        r"shape \(2,\).*\(3,\)",
    ),
    "moment nan in time": (
        lambda: stepped(robot(loads=[MomentLoad(surface="x+", moment=lambda t: (0, 0, nan))])),
        r"moment at t = 0 s is nan",
    ),
    "normal in the plane": (lambda: touching(pl.plane((0, 1))), r"3"),
    "plane at nan": (lambda: touching(pl.plane((0, 0, 1), nan)), r"height.*nan"),
    "sphere without radius": (lambda: pl.sphere((0, 0, 0), 0), r"radius is 0 m"),
    "sphere at nan": (lambda: touching(pl.sphere((0, 0, nan), 1)), r"nan"),
    "capsule without length": (
        lambda: touching(pl.capsule((0, 0, 0), (0, 0, 0), 0.01)),
        r"start and end",
    ),
    "capsule half plane": (lambda: pl.capsule((0, 0), (0, 1, 1), 0.01), r"capsule"),
    "actuators in a list": (
        lambda: stepped(robot(actuators=[pl.actuators.Thrust(point=END)])),
        r"actuators",
    ),
    "supports not in a list": (
        lambda: stepped(robot(supports=pl.Support(region="x-"))),
        r"supports",
    ),
    "point mass nan": (lambda: pl.PointMass(points=[(0, 0, nan)]), r"PointMass"),
    "point mass without mass": (lambda: pl.PointMass(points=[(0, 0, 0)], mass_each=0), r"0 kg"),
    "no point masses": (lambda: pl.PointMass(points=np.zeros((0, 3))), r"\(0, 3\)"),
}
STEPPING = {
    "dt zero": (lambda: model(dt=0), r"dt is 0 s"),
    "dt negative": (lambda: pl.BDF2(robot(), dt=-0.01), r"-0\.01 s"),
    "dt nan": (lambda: pl.SemiImplicit(robot(), dt=nan), r"nan s"),
    "dt as text": (lambda: model(dt="fast"), r"fast"),
    "dt beyond numbers": (
        lambda: stepped(model(robot(gravity=(0, 0, -9.81)), dt=1e-200)),
        r"1e-200",
    ),
    "nothing holds it": (
        lambda: pl.Quasistatic(robot(supports=())),
        r"translation along x, .*rotation about z.*Support",
    ),
    "it may slide": (
        lambda: pl.Quasistatic(robot(supports=[pl.Support(region="x-", axes="x")])),
        r"translation along y, translation along z, rotation about x\.",
    ),
    "it may slide in the plane": (
        lambda: pl.Quasistatic(flat(supports=[pl.Support(region="x-", axes="x")])),
        r"its translation along y\.",
    ),
    "control nan": (lambda: stepped(cabled(), u=[nan]), r"nan"),
    "control of two": (lambda: stepped(cabled(), u=[1, 2]), r"shape \(2,\)"),
    "control with an imaginary part": (
        lambda: stepped(cabled(), u=[1.0 + 1.0j]),
        r"1\+1j.*give numbers",
    ),
    "control of digits": (lambda: stepped(cabled(), u=["1.0"]), r"1\.0.*give numbers"),
    "control as text": (lambda: stepped(cabled(), u=["pull"]), r"pull"),
    "control of uneven rows": (
        lambda: model(cabled()).step(model().initial_state(), [[1], [1, 2]]),
        r"control",
    ),
    "state of another size": (lambda: stepped(model(), x=np.zeros(3)), r"shape \(3,\).*120"),
    "state nan": (lambda: stepped(model(), x=np.full(120, nan)), r"0"),
    "state collapsed": (lambda: stepped(model(), x=np.zeros(120)), r"Step 0 failed.*inverted"),
    "state collapsed, one solve": (
        lambda: stepped(pl.SemiImplicit(robot(), dt=0.01), x=np.zeros(120)),
        r"not positive definite",
    ),
    "parameter below its bound": (
        lambda: stepped(model(design=["body.E"]), p=[-1.0]),
        r"body\.E\[0\] = -1 Pa",
    ),
    "parameter above its bound": (
        lambda: stepped(model(design=["body.nu"]), p=[0.5]),
        r"body\.nu\[0\] = 0\.5",
    ),
    "parameter nan": (lambda: stepped(model(design=["body.E"]), p=[nan]), r"nan"),
    "parameters of another model": (lambda: stepped(model(), p=[1.0]), r"shape \(1,\)"),
    "unknown parameter": (lambda: model(design=["body.mu"]).params, r"'body\.mu'.*body\.nu"),
    "parameter twice": (lambda: model(design=["body.E", "body.E"]).params, r"body\.E"),
    "unknown solver": (
        lambda: stepped(model(robot(gravity=(0, 0, 1)), solver="magic")),
        r"'magic'",
    ),
    "newton without iterations": (
        lambda: pl.SolverOptions(iterations=0),
        r"its iterations \('0'\) must be",
    ),
    "newton tolerance nan": (lambda: pl.SolverOptions(tolerance=nan), r"nan"),
    "too few controls": (
        lambda: pl.simulate(model(cabled()), np.zeros((2, 1)), steps=3),
        r"2 steps, but steps=3",
    ),
    "controls of two": (lambda: pl.simulate(model(cabled()), np.zeros((2, 2))), r"\(2, 2\)"),
    "policy without an end": (lambda: pl.simulate(model(), lambda k, x: []), r"None"),
    "no steps": (lambda: pl.simulate(model(), lambda k, x: [], steps=0), r"is '0'"),
    "half a step": (lambda: pl.simulate(model(), lambda k, x: [], steps=2.5), r"2\.5"),
    "endless pull": (lambda: pl.equilibrium(pl.Quasistatic(cabled()), [1e9]), r"No equilibrium"),
    "endless push": (
        lambda: stepped(robot(actuators={"fan": pl.actuators.Thrust(point=END)}), u=[1e300, 0, 0]),
        r"Step 0",
    ),
    "derivative of a failed step": (
        lambda: model().linearize(model().step(np.zeros(120), [])),
        r"derivative",
    ),
    "a step of another model": (
        lambda: model().pullback(model().step(model().initial_state(), []), np.zeros(120)),
        r"made by another model",
    ),
    "equilibrium with inertia": (lambda: pl.equilibrium(model(), []), r"Quasistatic"),
    "damping as a number": (lambda: robot(damping=0.01), r"damping of robot is '0\.01'.*Damping"),
    "patch upside down": (lambda: Patch(lower=(1, 0, 0), upper=(0, 0, 0)), r"lower corner"),
    "rollout without tapes": (
        lambda: pl.pullback(model(), pl.simulate(model(), np.zeros((2, 0))), np.zeros(120)),
        r"keep=True",
    ),
    "adjoint of another size": (
        lambda: adjoint(np.zeros(3)),
        r"\(3,\)",
    ),
    "adjoint nan": (
        lambda: adjoint(np.full(120, nan)),
        r"nan",
    ),
    "check at another control": (
        lambda: pl.gradcheck(model(), model().initial_state(), np.zeros(3)),
        r"\(3,\)",
    ),
    "robot as text": (lambda: model("finger").initial_state(), r"finger"),
    "keyframes not in order": (
        lambda: Keyframes(times=[1, 0], values=[[0], [0]]),
        r"Keyframe 1 at 0 s",
    ),
    "keyframes nan": (lambda: Keyframes(times=[0], values=[[nan]]), r"finite"),
    "unknown experiment": (lambda: find("arm-reech"), r"'arm-reech'.*did you mean 'arm-reach'"),
}
KINDS = {"material": MATERIALS, "attached": ATTACHED, "step": STEPPING}
CASES = {f"{kind}: {name}": case for kind in KINDS for name, case in KINDS[kind].items()}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_rejected_with_clear_message(case, raises_clear_error):
    raises_clear_error(*CASES[case])


def test_at_least_70_cases_are_tested():
    assert len(CASES) >= 70


def test_robot_in_millimetres_warns():
    with pytest.warns(UserWarning, match=r"104 m large.*millimetres.*0\.001"):
        robot(shape=pl.Box(size=(100, 20, 20))).body()


DOUBTFUL = {
    "stiffer than diamond": (
        lambda: robot(material=pl.Material(E=1e14, nu=0.3)),
        r"more than diamond",
    ),
    "soft": (
        lambda: robot(material=pl.Material(E=1.0, nu=0.3)),
        r"softer than any gel.*write 1e\+06",
    ),
    "heavy": (
        lambda: robot(material=pl.Material(E=1e5, nu=0.3, density=1e6)),
        r"more than any metal",
    ),
    "light": (
        lambda: robot(material=pl.Material(E=1e5, nu=0.3, density=1e-3)),
        r"lightest aerogel",
    ),
    "sticky": (lambda: robot(contacts=[pl.Contact(obstacle=GROUND, friction=1e3)]), r"soft rubber"),
    "damped": (lambda: robot(damping=pl.Damping(stiffness=1e3)), r"stiffness damping is 1000 s"),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_implausible_value_warns(case):
    make, says = DOUBTFUL[case]
    with pytest.warns(UserWarning, match=says) as found:
        make().body()
    assert len(found) == 1


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_plane_does_not_depend_on_length_of_its_normal(scale, rng):
    y = rng.standard_normal((5, 3))
    for found, expected in zip(
        pl.plane((0, 3 * scale, 4 * scale), 0.1)(y), pl.plane((0, 0.6, 0.8), 0.1)(y), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-15)


def test_actuator_on_fixed_nodes_only_warns():
    with pytest.warns(UserWarning, match=r"'tendon' .*acts only on nodes that supports hold"):
        model(cabled(points=[(0, 0.002, 0.01), (0, 0.018, 0.01)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(cabled())


def test_supports_that_share_nodes_and_motion_are_accepted():
    motion = lambda t: (t, 0.0, 0.0)
    held = [pl.Support(region="x-", motion=motion), pl.Support(region="y-", motion=motion)]
    step = model(robot(supports=held)).step(model().initial_state(), [])
    assert step.status


PULL = pl.PointLoad(point=END, force=(0, 0, -1e300))
EXTREME = {
    "soft": lambda: model(robot(material=pl.Material(E=1e-6, nu=0.3), gravity=(0, 0, -9.81))),
    "stiff": lambda: model(robot(material=pl.Material(E=1e15, nu=0.3), gravity=(0, 0, -9.81))),
    "heavy": lambda: model(
        robot(material=pl.Material(E=1e5, nu=0.3, density=1e9), gravity=(0, 0, -9.81))
    ),
    "incompressible": lambda: model(
        robot(material=pl.Material(E=1e5, nu=0.5 - 1e-16), gravity=(0, 0, -9.81))
    ),
    "in a centrifuge": lambda: model(robot(gravity=(0, 0, -1e6))),
    "pulled": lambda: model(robot(loads=[PULL])),
    "pulled, one solve": lambda: pl.SemiImplicit(robot(loads=[PULL]), dt=0.01),
    "held everywhere": lambda: model(
        robot(supports=[pl.Support(region="body")], gravity=(0, 0, -9.81))
    ),
    "deep in the ground": lambda: model(
        robot(contacts=[pl.Contact(obstacle=pl.plane((0, 0, 1), 1e6))])
    ),
    "touching the middle of a ball": lambda: model(
        robot(contacts=[pl.Contact(obstacle=pl.sphere((0, 0, 0), 1.0))])
    ),
}


@pytest.mark.parametrize("extreme", EXTREME)
@pytest.mark.parametrize("scale", [1.0, 1e10, 1e200])
def test_extreme_valid_input_is_finite_or_explained(extreme, scale):
    dynamics = EXTREME[extreme]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = dynamics.step(scale * dynamics.initial_state(), np.zeros(0))
    assert np.isfinite(step.x).all()
    assert step.status or step.status.text.endswith(".")


def test_plane_gradient_is_its_unit_normal_exactly():
    """The normal is normalised only once."""
    for normal in np.random.default_rng(0).uniform(-1.0, 1.0, (20, 3)):
        gradient = pl.plane(normal).distance(np.zeros((1, 3)))[1]
        np.testing.assert_array_equal(gradient[0], normal / np.linalg.norm(normal))
