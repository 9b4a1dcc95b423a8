"""Files that survive a crash."""

from pliant.store.files import content_key, lock, read_json, write_atomic, write_json
from pliant.store.trajectory import Header, Trajectory, TrajectoryWriter, holds_trajectory, read_trajectory

__all__ = [
    "Header", "Trajectory", "TrajectoryWriter", "content_key", "holds_trajectory", "lock", "read_json", "read_trajectory", "write_atomic",
    "write_json",
]  # fmt: skip
