"""The arms of an ABB IRB 14000 (YuMi), to hold a soft body with: Gripper(surface="z+",
frame=irb14000("right"))."""

from pathlib import Path

from numpy.typing import ArrayLike

from pliant.actuators import Arm, load_arm


def irb14000(side: str, start: ArrayLike | None = None) -> Arm:
    """The "left" or the "right" arm of seven joints (in the order 1, 2, 7, 3, 4, 5, 6); z is up and
    x points away from the body.

    `start` (7,) [rad] is where it stands at first; without it the gripper is in front of the body,
    far from every limit.
    """
    return load_arm(Path(__file__).with_suffix(".toml"), side=side, start=start)
