"""Files that survive a crash."""

from pliant.store.files import (
    content_key,
    lock,
    os_errors_as_sentences,
    read_json,
    remove,
    write_atomic,
    write_json,
)
from pliant.store.trajectory import (
    Header,
    Trajectory,
    TrajectoryWriter,
    holds_trajectory,
    read_trajectory,
)
from pliant.store.vtk import PointFrame, write_point_frames

__all__ = [
    "Header",
    "PointFrame",
    "Trajectory",
    "TrajectoryWriter",
    "content_key",
    "holds_trajectory",
    "lock",
    "os_errors_as_sentences",
    "read_json",
    "read_trajectory",
    "remove",
    "write_atomic",
    "write_json",
    "write_point_frames",
]
