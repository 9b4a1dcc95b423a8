"""The Stiff-Flop arm of paper 001: a slender silicone cylinder of two sections with three pneumatic
chambers in each."""

from collections.abc import Sequence

from pliant.actuators import Fibres, Pressure
from pliant.actuators.fibres import rays
from pliant.geometry import Chambered
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support

RADIUS, CORE, WALL, RIB, CAP = 0.0125, 0.004, 0.0025, 0.003, 0.005  # [m]


def stiff_flop(
    *,
    section: float = 0.1,
    chambers: int = 3,
    divisions: Sequence[int] = (2, 3, 1),
    order: int = 2,
    law: str = "neo-hookean",
    E: float = 2e5,
    winding: float = 4e6,
    highest: float = 3e4,
) -> Robot:
    """The arm of Fig. 3 and scenario 2, hanging from its base at the origin; 1,810 vertices by
    default.

    The paper gives no sizes: here it is 25 mm thick and 215 mm long, with chambers of `section`
    [m]. The first chamber lies towards x, the others follow counterclockwise; the controls are
    their pressures, up to `highest` [Pa], of "upper-1"... near the base and "lower-1"... near the
    tip. As around the real chambers, a thread is wound through walls and ribs, of the modulus
    `winding` [Pa]; without it the silicone swells like a balloon instead of bending. One chamber at
    its highest pressure bends the lower section by 41 degrees and the upper one, which carries it,
    by 23. `divisions` and `order` as in Chambered.
    """
    length = 2 * section + 3 * CAP
    arm = Chambered(
        radius=RADIUS,
        core=CORE,
        wall=WALL,
        rib=RIB,
        section=section,
        cap=CAP,
        sections=2,
        chambers=chambers,
        origin=(0.0, 0.0, -length),
    )
    return Robot(
        name="stiff_flop",
        shape=arm,
        divisions=divisions,
        order=order,
        material=Material(E=E, nu=0.45, density=1100.0, law=law),
        supports=[Support(region="top")],
        actuators={
            **{
                f"{part}-{k + 1}": Pressure(cavity=f"chamber {s}-{k + 1}", limits=(0.0, highest))
                for part, s in (("upper", 2), ("lower", 1))
                for k in range(chambers)
            },
            "winding": Fibres(region="wall", stiffness=winding),
            "ties": Fibres(region="ribs", stiffness=winding, direction=rays),
        },
        effectors={
            "middle": Effector(point=(0.0, 0.0, -length / 2)),
            "tip": Effector(point=(0.0, 0.0, -length)),
        },
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=8.0, stiffness=0.02),
    )
