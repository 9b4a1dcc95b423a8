"""The arms of an ABB IRB 14000 (YuMi), for example `Gripper(frame=irb14000("right"), ...)`."""

from pathlib import Path

from numpy.typing import ArrayLike

from pliant.actuators import Arm, load_arm


def irb14000(side: str, start: ArrayLike | None = None) -> Arm:
    """Return the "left" or "right" arm with seven joints, in the order 1, 2, 7, 3, 4, 5, 6.

    z points up and x away from the body. `start` (7,) [rad] are the initial joint angles; by
    default the gripper is in front of the body, far from all joint limits.
    """
    return load_arm(Path(__file__).with_name("irb14000.toml"), side=side, start=start)
