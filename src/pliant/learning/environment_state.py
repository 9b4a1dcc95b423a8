"""The state of a vector environment as arrays, for checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pliant.core import Array, InputError
from pliant.learning.episodes import Episode

RANDOM_BYTES = 41  # of the generator PCG64: two numbers of 16 bytes, one flag, one of 8 bytes


def environment_arrays(env: Any) -> dict[str, Array]:
    """Return the state of a VectorEnv as arrays whose shapes do not depend on its episodes."""
    states, rules = env.state(), env.rules
    b, m = len(states), rules.costs.n_past + 1
    arrays = {
        "episode_counts": np.zeros((b, 3), np.int64),  # steps, stored states, stored controls
        "episode_states": np.zeros((b, m, rules.model.space.size)),
        "episode_controls": np.zeros((b, m, rules.model.n_controls)),
        "episode_random": np.zeros((b, RANDOM_BYTES), np.uint8),
    }
    for i, state in enumerate(states):
        x, u = state.episode.states, state.episode.controls
        arrays["episode_counts"][i] = state.episode.step, len(x), len(u)
        arrays["episode_states"][i, : len(x)] = x
        arrays["episode_controls"][i, : len(u)] = u
        arrays["episode_random"][i] = _random_bytes(state.random)
    return arrays


def restore_environment(env: Any, arrays: Mapping[str, Array]) -> Array:
    """Continue a VectorEnv from `environment_arrays`. Return the observations (count, size).

    Raises InputError for counts that cannot be.
    """
    from pliant.learning.environment import EnvState  # it needs gymnasium

    counts, steps = arrays["episode_counts"], env.rules.task.steps
    m = arrays["episode_states"].shape[1]
    k = counts[:, 0]
    kept = np.stack([np.minimum(k + 1, m), np.minimum(k, m)], axis=1)  # states and controls
    good = (k >= 0) & (k < steps) & np.all(counts[:, 1:] == kept, axis=1)
    if not np.all(good):
        raise InputError(
            "The episodes in the checkpoint have invalid lengths. Restore it from a copy, or train "
            "again."
        )
    return env.set_state(
        [
            EnvState(
                episode=Episode(step=int(k), states=x[:n].copy(), controls=u[:j].copy()),
                random=_random_state(random),
            )
            for (k, n, j), x, u, random in zip(
                counts,
                *(arrays[f"episode_{name}"] for name in ("states", "controls", "random")),
                strict=True,
            )
        ]
    )


def _random_bytes(state: Mapping[str, Any]) -> Array:
    inner = state["state"]
    data = b"".join(
        [
            int(inner["state"]).to_bytes(16, "little"),
            int(inner["inc"]).to_bytes(16, "little"),
            int(state["has_uint32"]).to_bytes(1, "little"),
            int(state["uinteger"]).to_bytes(8, "little"),
        ]
    )
    return np.frombuffer(data, np.uint8)


def _random_state(numbers: Sequence[int] | Array) -> dict[str, Any]:
    data = bytes(int(x) for x in numbers)
    value = lambda first, end: int.from_bytes(data[first:end], "little")
    return {
        "bit_generator": "PCG64",
        "state": {"state": value(0, 16), "inc": value(16, 32) | 1},  # inc is odd
        "has_uint32": value(32, 33) & 1,
        "uinteger": value(33, 37),  # 32 bits
    }
