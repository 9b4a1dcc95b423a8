"""Robot files: TOML to Robot and Task."""

from pliant.robot_files.linked_task import LinkedTask
from pliant.robot_files.load import default_task, load_robot, load_task
from pliant.robot_files.save import save_robot
from pliant.robot_files.task import Keyframes, Task

__all__ = [
    "Keyframes",
    "LinkedTask",
    "Task",
    "default_task",
    "load_robot",
    "load_task",
    "save_robot",
]
