"""The hydraulic pendulum of paper 002, Fig. 6: a body on a slender stem, with four cavities around
its axis."""

from collections.abc import Sequence

from pliant.actuators import Fibres
from pliant.actuators.fibres import rays
from pliant.geometry import Chambered
from pliant.materials import Material
from pliant.robot import Damping, Effector, Robot, Support
from pliant.zoo.robots.fluids import fluid_in

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
    highest: float = 1e4,
) -> Robot:
    """A silicone body that hangs from the origin by a slender stem; `chambers` cavities of 10 ml
    lie around its axis, the first towards x, the others counterclockwise; 1,427 nodes by default.

    The controls are the pressures of what fills them, "water" or "air", up to `highest` [Pa]: one
    alone bends the pendulum away from it, all together lengthen it. E is Young's modulus [Pa] and
    `winding` that of the thread through walls and ribs; `divisions` and `order` as in Chambered.
    The effector "tip" is the middle of the lower end. The paper gives neither sizes nor materials.
    """
    length = SECTION + 2 * CAP + STEM
    return Robot(
        name="hydraulic_pendulum",
        shape=Chambered(
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
                f"cavity-{k + 1}": fluid_in(
                    fluid, f"chamber 1-{k + 1}", drive="pressure", limits=(0.0, highest)
                )
                for k in range(chambers)
            },
            "winding": Fibres(region="wall", stiffness=winding),
            "ties": Fibres(region="ribs", stiffness=winding, direction=rays),
        },
        effectors={"tip": Effector(point=(0.0, 0.0, -length))},
        gravity=(0.0, 0.0, -9.81),
        damping=Damping(mass=5.0, stiffness=0.02),
    )
