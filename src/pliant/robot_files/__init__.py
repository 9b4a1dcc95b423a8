"""Robot files: TOML to Robot and Task."""

from pliant.robot_files.load import load_robot, load_task
from pliant.robot_files.save import save_robot
from pliant.robot_files.task import Keyframes, Task

__all__ = ["Keyframes", "Task", "load_robot", "load_task", "save_robot"]
