"""The hydraulic pendulum of [Rodriguez2017, Fig. 6]: four chambers around the axis of a body."""

from collections.abc import Sequence

from pliant.actuators import Fibres
from pliant.actuators.fibres import radial
from pliant.geometry import ChamberedCylinder
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.robots.fluids import fluid_actuator

RADIUS, CORE, WALL, RIB, SECTION, CAP = 0.016, 0.0035, 0.0025, 0.0035, 0.1, 0.008  # [m] of the body
STEM, NECK = 0.05, 0.005  # [m]


def hydraulic_pendulum(
    *,
    fluid: str = "water",
    chambers: int = 4,
    divisions: Sequence[int] = (2, 2, 1),
    order: int = 2,
    E: float = 8e4,
    winding: float = 3e6,
    max_pressure: float = 1e4,
) -> Robot:
    """Return a silicone body that hangs from the origin by a slender stem.

    `chambers` cavities of 10 ml lie around its axis, counterclockwise from x. The controls are the
    pressures of their fluid, "water" or "air", up to `max_pressure` [Pa]. One pressure bends the
    pendulum away from its chamber; equal pressures lengthen it. E [Pa] is Young's modulus,
    `winding` [Pa] that of the fibres in walls and ribs. `divisions` and `order` are those of
    `ChamberedCylinder`. The effector "tip" is the centre of the lower end. The mesh has 1,427 nodes
    by default. The paper gives neither sizes nor materials.
    """
    length = SECTION + 2 * CAP + STEM
    return Robot(
        name="hydraulic_pendulum",
        shape=ChamberedCylinder(
            radius=RADIUS,
            core=CORE,
            wall=WALL,
            rib=RIB,
            section=SECTION,
            cap=CAP,
            chambers=chambers,
            stem=STEM,
            neck=NECK,
            origin=(0.0, 0.0, -length),
        ),
        divisions=divisions,
        order=order,
        material=Material(E=E, nu=0.45, density=1100.0),
        supports=[Support(region="top")],
        actuators={
            **{
                f"cavity-{k + 1}": fluid_actuator(
                    fluid, f"chamber 1-{k + 1}", drive="pressure", limits=(0.0, max_pressure)
                )
                for k in range(chambers)
            },
            "winding": Fibres(region="wall", stiffness=winding),
            "ties": Fibres(region="ribs", stiffness=winding, direction=radial),
        },
        effectors={"tip": Effector(point=(0.0, 0.0, -length))},
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )
