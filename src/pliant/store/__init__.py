"""Crash-safe files: JSON, trajectories and VTK."""

from pliant.store.files import (
    check_path,
    content_key,
    lock_folder,
    read_json,
    remove_files,
    translate_write_errors,
    write_atomic,
    write_json,
)
from pliant.store.trajectory import (
    Header,
    Trajectory,
    TrajectoryWriter,
    has_trajectory,
    read_trajectory,
)
from pliant.store.vtk import PointFrame, write_point_frames

__all__ = [
    "Header",
    "PointFrame",
    "Trajectory",
    "TrajectoryWriter",
    "check_path",
    "content_key",
    "has_trajectory",
    "lock_folder",
    "read_json",
    "read_trajectory",
    "remove_files",
    "translate_write_errors",
    "write_atomic",
    "write_json",
    "write_point_frames",
]
