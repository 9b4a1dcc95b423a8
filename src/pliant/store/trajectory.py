"""Trajectories in chunks that survive a crash and resume exactly."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from pliant.core import Array, InputError, PliantError, is_whole, quoted, require_positive
from pliant.store.files import read_bytes, read_json, remove, write_atomic, write_json


@dataclass(frozen=True, kw_only=True)
class Header:
    """What every step of a trajectory has in common."""

    key: str  # content_key of the run's settings
    dt: float  # [s]
    n_state: int
    n_controls: int
    scalars: tuple[str, ...] = ()  # names of the numbers kept at each step
    chunk: int = 64  # steps between two writes, so the most that a crash can lose

    def __post_init__(self) -> None:
        require_positive("The time step of the trajectory", self.dt, "s")
        for name, value, least in (
            ("n_state", self.n_state, 0),
            ("n_controls", self.n_controls, 0),
            ("chunk", self.chunk, 1),
        ):
            if not is_whole(value) or value < least:
                raise InputError(
                    f"{name} of the trajectory is {quoted(value)}; it must be a whole number from "
                    f"{least} up."
                )


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """k steps of a run: step i applied controls[i], ended at times[i] and reached states[i]."""

    header: Header
    initial: Array  # (n_state,) the state at time 0
    times: Array  # (k,) [s]
    states: Array  # (k, n_state)
    controls: Array  # (k, n_controls)
    scalars: dict[str, Array]  # name -> (k,)

    @property
    def path(self) -> Array:
        """(k + 1, n_state) the initial state and every state after it; a resumed run continues from
        path[-1]."""
        return np.concatenate([self.initial[None], self.states])


@dataclass(kw_only=True)
class TrajectoryWriter:
    """Puts steps on disk in `folder`/trajectory, a chunk at a time; made by `start` or `resume`,
    used with `with`."""

    folder: Path
    header: Header
    steps: int = 0  # how many were appended, on disk or pending
    pending: list[tuple[Array, Array, list[float]]] = field(default_factory=list)

    @classmethod
    def start(
        cls, folder: str | Path, initial: Array, header: Header, *, replace: bool = False
    ) -> Self:
        """A new trajectory from the state `initial` (n_state,); an old one there goes only with
        replace=True."""
        x = _finite_vector("The initial state", initial, header.n_state)
        if holds_trajectory(folder) and not replace:
            raise InputError(
                f"{folder} already holds a trajectory; resume it, use another folder or pass "
                "replace=True."
            )
        _clear(_home(folder))
        write_atomic(_home(folder) / "initial.npz", _pack(initial=x))
        write_json(
            _home(folder) / "header.json", asdict(header)
        )  # last: a folder with a header is a whole start
        return cls(folder=Path(folder), header=header)

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        *,
        key: str,
        header: Header | None = None,
        initial: Array | None = None,
        most: int | None = None,
    ) -> tuple[Self, Trajectory]:
        """A writer that continues after the last chunk on disk, and the trajectory so far. Raises
        `InputError` if its key, `header`, `initial` state or number of steps, at most `most`, is
        not that of the run to continue."""
        done = read_trajectory(folder)
        if done.header.key != key:
            raise InputError(
                f"{folder} was run with other settings (key {done.header.key[:12]}, now "
                f"{key[:12]}); resume it with the first settings, or start again in another "
                "folder."
            )
        _check_header(folder, done.header, header or done.header)
        if initial is not None and not np.array_equal(done.initial, initial):
            raise InputError(
                f"{_home(folder) / 'initial.npz'} is not the initial state of this run; run it "
                "again without resume."
            )
        if most is not None and len(done.states) > most:
            raise InputError(
                f"{folder} holds a trajectory of {len(done.states)} steps, but this run has "
                f"{most}; delete the chunks after step {most}, or run it again without resume."
            )
        return cls(folder=Path(folder), header=done.header, steps=len(done.states)), done

    def append(self, state: Array, control: Array, **scalars: float) -> None:
        """Keep one step: the state (n_state,) it reached, the control (n_controls,) it applied, and
        named numbers."""
        if set(scalars) != set(self.header.scalars):
            raise InputError(
                f"Step {self.steps} brings the numbers {sorted(scalars)}, but this trajectory "
                f"keeps {sorted(self.header.scalars)}; append exactly these."
            )
        x = _finite_vector(f"The state of step {self.steps}", state, self.header.n_state)
        u = _finite_vector(f"The control of step {self.steps}", control, self.header.n_controls)
        self.pending.append((x, u, [float(scalars[name]) for name in self.header.scalars]))
        self.steps += 1
        if len(self.pending) >= self.header.chunk:
            self.flush()

    def flush(self) -> None:
        """Put the pending steps on disk as one chunk, named after its first step."""
        if not self.pending:
            return
        states, controls, scalars = (np.array(part) for part in zip(*self.pending, strict=True))
        blob = _pack(states=states, controls=controls, scalars=scalars)
        write_atomic(_home(self.folder) / _chunk_name(self.steps - len(self.pending)), blob)
        self.pending.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        # After an error the steps so far are still good, and the first error matters more than a
        # second one here.
        with suppress(*([PliantError] if error else [])):
            self.flush()


def holds_trajectory(folder: str | Path) -> bool:
    """Whether a run in this folder got far enough to be read or resumed."""
    return (_home(folder) / "header.json").is_file()


def read_trajectory(folder: str | Path) -> Trajectory:
    """Every step on disk in `folder`; a missing or damaged chunk is named, with what to do about
    it."""
    if not holds_trajectory(folder):
        raise InputError(
            f"{folder} holds no trajectory (no trajectory/header.json); run the experiment there "
            "first."
        )
    header = _read_header(_home(folder) / "header.json")
    initial = _unpack(_home(folder) / "initial.npz", {"initial": (header.n_state,)})["initial"]
    states, controls, scalars = _read_chunks(
        _home(folder), (header.n_state, header.n_controls, len(header.scalars))
    )
    return Trajectory(
        header=header,
        initial=initial,
        times=header.dt * np.arange(1, len(states) + 1),
        states=states,
        controls=controls,
        scalars=dict(zip(header.scalars, scalars.T, strict=True)),
    )


def _home(folder: str | Path) -> Path:
    return Path(folder) / "trajectory"


def _chunk_name(first: int) -> str:
    return f"chunk-{first:06d}.npz"


def _read_chunks(home: Path, widths: tuple[int, int, int]) -> list[Array]:
    """The states, controls and scalars of all chunks, each (k, width); the names of the files must
    leave no gap."""
    shapes = {
        name: (-1, width)
        for name, width in zip(("states", "controls", "scalars"), widths, strict=True)
    }
    parts, steps = [{name: np.zeros((0, width)) for name, (_, width) in shapes.items()}], 0
    for first, path in sorted(
        (int(p.stem[6:]), p) for p in home.glob("chunk-*.npz") if p.stem[6:].isdecimal()
    ):
        if first != steps:
            raise InputError(
                f"{path} starts at step {first}, but the chunk before it ends at {steps}; restore "
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
            f"{path} is not the header of a trajectory ({error}); delete its folder and run again."
        ) from error


def _check_header(folder: str | Path, found: Header, wanted: Header) -> None:
    for name, value in asdict(wanted).items():
        if asdict(found)[name] != value:
            raise InputError(
                f"{_home(folder) / 'header.json'} has {name} = {quoted(asdict(found)[name])}, but "
                f"this run has {quoted(value)}; correct it, or run it again without resume."
            )


def _clear(home: Path) -> None:
    """Remove an old trajectory, header first: a crash here must not leave a header that has lost
    some of its chunks."""
    remove(home, "header.json", "chunk-*.npz")


def _pack(**arrays: Array) -> bytes:
    buffer = BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # the stub takes the names for allow_pickle
    return buffer.getvalue()


def _unpack(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The named arrays of an .npz file, checked against `shapes` (-1: any length, the same for
    all)."""
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
                raise ValueError(f"{name} holds numbers that are not finite")
    except (
        Exception
    ) as error:  # damaged bytes make NumPy and zipfile raise almost anything, MemoryError included
        raise InputError(
            f"{path} is damaged ({len(blob)} bytes: {error}); restore it from a copy, or delete "
            "it and all later chunks, then resume."
        ) from error
    return arrays


def _finite_vector(name: str, value: Array, n: int) -> Array:
    """A private copy of `value` as (n,) finite floats: the caller may reuse its buffer before the
    chunk is written."""
    array = np.array(value, dtype=float).reshape(-1)
    if array.size != n:
        raise InputError(
            f"{name} has {array.size} numbers, but this trajectory keeps {n}; pass an array of "
            f"shape ({n},)."
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(
            f"{name} is {array[bad[0]]} at entry {bad[0]}; end the run at the last step that "
            "converged."
        )
    return array
