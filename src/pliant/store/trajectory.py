"""Crash-safe trajectories in chunks, which can be resumed exactly."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from pliant.core import (
    Array,
    InputError,
    PliantError,
    counted,
    is_integer,
    quoted,
    require_positive,
)
from pliant.store.files import read_bytes, read_json, remove_files, write_atomic, write_json


@dataclass(frozen=True, kw_only=True)
class Header:
    """The metadata of a trajectory."""

    key: str  # content_key of the run's settings
    dt: float  # [s]
    n_state: int
    n_controls: int
    scalars: tuple[str, ...] = ()  # names of the scalars of each step
    chunk: int = 64  # steps between two writes; a crash loses at most so many

    def __post_init__(self) -> None:
        require_positive("The time step of the trajectory", self.dt, "s")
        for name, value, minimum in (
            ("n_state", self.n_state, 0),
            ("n_controls", self.n_controls, 0),
            ("chunk", self.chunk, 1),
        ):
            if not is_integer(value) or value < minimum:
                raise InputError(
                    f"{name} of the trajectory is {quoted(value)}. Give a whole number of "
                    f"at least {minimum}."
                )


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """k steps of a run: step i applies controls[i], ends at times[i] and reaches states[i]."""

    header: Header
    initial: Array  # (n_state,) the state at time 0
    times: Array  # (k,) [s]
    states: Array  # (k, n_state)
    controls: Array  # (k, n_controls)
    scalars: dict[str, Array]  # name -> (k,)

    @property
    def path(self) -> Array:
        """The initial state and all later states, (k + 1, n_state). A resumed run continues from
        path[-1]."""
        return np.concatenate([self.initial[None], self.states])


@dataclass(kw_only=True)
class TrajectoryWriter:
    """A writer of steps to `folder`/trajectory in chunks. Create it by `start` or `resume` and use
    it as a context manager."""

    folder: Path
    header: Header
    steps: int = 0  # number of appended steps, on disk or pending
    pending: list[tuple[Array, Array, list[float]]] = field(default_factory=list)

    @classmethod
    def start(
        cls, folder: str | Path, initial: Array, header: Header, *, replace: bool = False
    ) -> Self:
        """Start a trajectory at the state `initial` (n_state,). Raises `InputError` if the folder
        has a trajectory, unless replace=True."""
        x = _finite_vector("The initial state", initial, header.n_state)
        if has_trajectory(folder) and not replace:
            raise InputError(
                f"{folder} already has a trajectory. Resume it, use another folder, or pass "
                "replace=True."
            )
        _clear(_trajectory_folder(folder))
        write_atomic(_trajectory_folder(folder) / "initial.npz", _pack(initial=x))
        # last: with a header, the start is complete
        write_json(_trajectory_folder(folder) / "header.json", asdict(header))
        return cls(folder=Path(folder), header=header)

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        *,
        key: str,
        header: Header | None = None,
        initial: Array | None = None,
        max_steps: int | None = None,
    ) -> tuple[Self, Trajectory]:
        """Return a writer that continues after the last chunk on disk, and the trajectory so far.

        Raises `InputError` if the key, `header` or `initial` state differs from that of the run to
        continue, or if there are more than `max_steps` steps."""
        done = read_trajectory(folder)
        if done.header.key != key:
            raise InputError(
                f"{folder} was run with other settings (key {done.header.key[:12]}, now "
                f"{key[:12]}). Resume it with the first settings, or start again in another "
                "folder."
            )
        _check_header(folder, done.header, header or done.header)
        if initial is not None and not np.array_equal(done.initial, initial):
            raise InputError(
                f"{_trajectory_folder(folder) / 'initial.npz'} is not the initial state of this "
                "run. Run it again without resume."
            )
        if max_steps is not None and len(done.states) > max_steps:
            raise InputError(
                f"{folder} has a trajectory of {counted(len(done.states), 'step')}, but this run "
                f"has {max_steps}. Delete the chunks after step {max_steps}, or run it again "
                "without resume."
            )
        return cls(folder=Path(folder), header=done.header, steps=len(done.states)), done

    def append(self, state: Array, control: Array, **scalars: float) -> None:
        """Append one step: the reached state (n_state,), the applied control (n_controls,) and
        named scalars. Raises `InputError` if they do not fit the header or are not finite."""
        if set(scalars) != set(self.header.scalars):
            raise InputError(
                f"Step {self.steps} has the scalars {sorted(scalars)}, but this trajectory "
                f"has {sorted(self.header.scalars)}. Append exactly these."
            )
        x = _finite_vector(f"The state of step {self.steps}", state, self.header.n_state)
        u = _finite_vector(f"The control of step {self.steps}", control, self.header.n_controls)
        self.pending.append((x, u, [float(scalars[name]) for name in self.header.scalars]))
        self.steps += 1
        if len(self.pending) >= self.header.chunk:
            self.flush()

    def flush(self) -> None:
        """Write the pending steps as one chunk, named after its first step."""
        if not self.pending:
            return
        states, controls, scalars = (np.array(part) for part in zip(*self.pending, strict=True))
        blob = _pack(states=states, controls=controls, scalars=scalars)
        write_atomic(
            _trajectory_folder(self.folder) / _chunk_name(self.steps - len(self.pending)), blob
        )
        self.pending.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        # After an error the steps so far are valid. A second error must not hide the first one.
        with suppress(*([PliantError] if error else [])):
            self.flush()


def has_trajectory(folder: str | Path) -> bool:
    """Return whether a folder has a trajectory that can be read or resumed."""
    return (_trajectory_folder(folder) / "header.json").is_file()


def read_trajectory(folder: str | Path) -> Trajectory:
    """Return all steps on disk in `folder`. Raises `InputError` that names a missing or damaged
    chunk and the remedy."""
    if not has_trajectory(folder):
        raise InputError(
            f"{folder} has no trajectory (no trajectory/header.json). Run the experiment there "
            "first."
        )
    header = _read_header(_trajectory_folder(folder) / "header.json")
    initial = _unpack(_trajectory_folder(folder) / "initial.npz", {"initial": (header.n_state,)})[
        "initial"
    ]
    states, controls, scalars = _read_chunks(
        _trajectory_folder(folder), (header.n_state, header.n_controls, len(header.scalars))
    )
    return Trajectory(
        header=header,
        initial=initial,
        times=header.dt * np.arange(1, len(states) + 1),
        states=states,
        controls=controls,
        scalars=dict(zip(header.scalars, scalars.T, strict=True)),
    )


def _trajectory_folder(folder: str | Path) -> Path:
    return Path(folder) / "trajectory"


def _chunk_name(first: int) -> str:
    return f"chunk-{first:06d}.npz"


def _read_chunks(folder: Path, widths: tuple[int, int, int]) -> list[Array]:
    """Return the states, controls and scalars of all chunks, (k, width) each. Raises `InputError`
    if a chunk is missing."""
    shapes = {
        name: (-1, width)
        for name, width in zip(("states", "controls", "scalars"), widths, strict=True)
    }
    parts, steps = [{name: np.zeros((0, width)) for name, (_, width) in shapes.items()}], 0
    for first, path in sorted(
        (int(p.stem[6:]), p) for p in folder.glob("chunk-*.npz") if p.stem[6:].isdecimal()
    ):
        if first != steps:
            raise InputError(
                f"{path} starts at step {first}, but the chunk before it ends at {steps}. Restore "
                f"{_chunk_name(steps)}, or delete this and all later chunks and resume."
            )
        parts.append(_unpack(path, shapes))
        steps += len(parts[-1]["states"])
    return [np.concatenate([part[name] for part in parts]) for name in shapes]


def _read_header(path: Path) -> Header:
    raw = read_json(path)
    try:
        return Header(**{**raw, "scalars": tuple(raw["scalars"])})
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{path} is not the header of a trajectory ({error}). Delete its folder and run again."
        ) from error


def _check_header(folder: str | Path, found: Header, wanted: Header) -> None:
    path = _trajectory_folder(folder) / "header.json"
    for name, value in asdict(wanted).items():
        if asdict(found)[name] != value:
            raise InputError(
                f"{path} has {name} = {quoted(asdict(found)[name])}, but this run has "
                f"{quoted(value)}. Correct it, or run it again without resume."
            )


def _clear(folder: Path) -> None:
    """Remove an old trajectory, header first: a crash must not leave a header without its
    chunks."""
    remove_files(folder, "header.json", "chunk-*.npz")


def _pack(**arrays: Array) -> bytes:
    buffer = BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # the stub takes the names for allow_pickle
    return buffer.getvalue()


def _unpack(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return the named arrays of an .npz file. Raises `InputError` unless they have the `shapes`
    (-1: any length, equal for all)."""
    blob = read_bytes(path)
    try:
        with np.load(BytesIO(blob), allow_pickle=False) as file:
            arrays = {name: file[name] for name in shapes}
        rows = len(next(iter(arrays.values())))
        for name, shape in shapes.items():
            if arrays[name].dtype != float or arrays[name].shape != tuple(
                rows if n < 0 else n for n in shape
            ):
                raise ValueError(f"{name} has shape {arrays[name].shape}")
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} has numbers that are not finite")
    except Exception as error:  # NumPy and zipfile raise many types for damaged bytes
        raise InputError(
            f"{path} is damaged ({counted(len(blob), 'byte')}: {error}). Restore it from a copy, "
            "or delete it and all later chunks, then resume."
        ) from error
    return arrays


def _finite_vector(name: str, value: Array, n: int) -> Array:
    """Return a copy of `value` as finite floats (n,); the caller may reuse its buffer before the
    chunk is written. Raises `InputError` for another size or non-finite numbers."""
    array = np.array(value, dtype=float).reshape(-1)
    if array.size != n:
        raise InputError(
            f"{name} has {counted(array.size, 'number')}, but this trajectory needs {n}. Pass an "
            f"array of shape ({n},)."
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(
            f"{name} is {array[bad[0]]} at entry {bad[0]}. End the run at the last step that "
            "converged."
        )
    return array
