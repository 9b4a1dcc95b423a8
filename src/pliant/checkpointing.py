"""Checkpointing: reverse sweeps over long simulations in bounded memory.

A few states are kept and the steps between them are simulated again. The positions of the kept
states follow Griewank's binomial schedule (treeverse), which repeats the fewest steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, isqrt
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule that keeps at most `tapes` steps with their tapes, and at most `slots` states in
    addition to the first one."""

    tapes: int
    slots: int = 0
    binomial: bool = True  # otherwise one state every `tapes` steps

    def advance(self, length: int, free: int) -> int:
        """Return the number of steps to the next kept state, if `length` steps (more than `tapes`)
        remain and `free` slots are free."""
        units = -(-length // self.tapes)
        return self.tapes * (binomial_split(units, free) if self.binomial else 1)

    def kept_states(self, steps: int) -> int:
        """Return the most states that a sweep over `steps` keeps in addition to the first one."""
        return min(self.slots, -(-steps // self.tapes) - 1)


def uniform_schedule(steps: int) -> Schedule:
    """Return the schedule with about sqrt(steps) segments of sqrt(steps) steps."""
    tapes = isqrt(steps - 1) + 1
    return Schedule(tapes=tapes, slots=-(-steps // tapes) - 1, binomial=False)


def best_schedule(steps: int, budget: float, state: int, tape: int) -> Schedule:
    """Return the schedule with the fewest extra steps for a memory budget. The budget and the sizes
    of a state and a tape are in bytes."""
    if steps * tape <= budget:
        return Schedule(tapes=steps)
    most = min(int((budget - tape) // state), steps - 1)
    options = [
        Schedule(tapes=int((budget - slots * state) // tape), slots=slots)
        for slots in range(most + 1)
    ]
    return min(
        options, key=lambda plan: plan.tapes * recomputed_units(-(-steps // plan.tapes), plan.slots)
    )


def _repetitions(units: int, slots: int) -> int:
    """Return the least r with beta(slots + 1, r) = C(slots + 1 + r, r) >= units: the largest number
    of times that a unit is simulated (Griewank 1992)."""
    r = 0
    while comb(slots + 1 + r, r) < units:
        r += 1
    return r


def recomputed_units(units: int, slots: int) -> int:
    """Return the fewest units to simulate without a tape in a reverse sweep over `units` units with
    additional `slots`: r l - beta(s + 1, r - 1)."""
    r = _repetitions(units, slots)
    return r * units - comb(slots + 1 + r, r - 1) if r else 0


def binomial_split(units: int, slots: int) -> int:
    """Return the number of `units` (2 or more) before the next kept state: beta(s, r - 1), limited
    such that the remaining ones need at most r repetitions."""
    if slots == 0:
        return units - 1
    r, s = _repetitions(units, slots), slots + 1
    most = comb(s + r - 1, r - 1)
    return max(1, min(most, units - comb(s + r - 2, r - 1)))


def reverse_sweep(
    steps: int,
    schedule: Schedule,
    start: Any,
    advance: Callable[[int, int, Any], Any],
    adjoint: Callable[[int, int, Any, int], None],
) -> None:
    """Process steps in reverse order: advance from the last kept state until the remaining steps
    fit on tapes, apply their adjoint, then drop the state.

    `advance(k, goal, x)` returns the state at step `goal` from x at step k. `adjoint(k, end, x,
    kept)` tapes the steps from k to end and applies their adjoint; `kept` states are kept then."""
    kept, end = [(0, start)], steps
    while kept:
        k, x = kept[-1]
        free = schedule.slots - len(kept) + 1
        if end - k > schedule.tapes:
            goal = k + schedule.advance(end - k, free)
            x = advance(k, goal, x)
            if free > 0:
                kept.append((goal, x))
                continue
            k = goal
        else:
            kept.pop()
        adjoint(k, end, x, len(kept) - bool(kept))
        end = k
