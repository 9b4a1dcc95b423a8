"""The Stiff-Flop arm of [Menager2024]: a silicone cylinder with two sections of three chambers."""

from collections.abc import Sequence

from pliant.actuators import Fibres, Pressure
from pliant.actuators.fibres import radial
from pliant.geometry import ChamberedCylinder
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
    max_pressure: float = 3e4,
) -> Robot:
    """Return the arm of [Menager2024, Fig. 3, scenario 2], hanging from its base at the origin.

    It is 25 mm thick and 215 mm long, with chambers of length `section` [m]; the paper gives no
    sizes. The chambers are numbered counterclockwise from x: "upper-1"... near the base,
    "lower-1"... near the tip. The controls are their pressures, up to `max_pressure` [Pa]. Fibres
    of modulus `winding` [Pa] in walls and ribs prevent radial expansion. One chamber at maximum
    pressure bends the lower section by 41 degrees and the upper section by 23 degrees. `divisions`
    and `order` are those of `ChamberedCylinder`. The mesh has 1,810 vertices by default.
    """
    length = 2 * section + 3 * CAP
    arm = ChamberedCylinder(
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
                f"{part}-{k + 1}": Pressure(
                    cavity=f"chamber {s}-{k + 1}", limits=(0.0, max_pressure)
                )
                for part, s in (("upper", 2), ("lower", 1))
                for k in range(chambers)
            },
            "winding": Fibres(region="wall", stiffness=winding),
            "ties": Fibres(region="ribs", stiffness=winding, direction=radial),
        },
        effectors={
            "middle": Effector(point=(0.0, 0.0, -length / 2)),
            "tip": Effector(point=(0.0, 0.0, -length)),
        },
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=8.0, stiffness=0.02),
    )
