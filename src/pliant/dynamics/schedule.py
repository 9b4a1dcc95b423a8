"""How to go back over a long run in bounded memory: few states are kept, and what lies between them
is simulated again.

Between kept states the split is Griewank's binomial one (treeverse), which simulates the fewest
steps again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, isqrt
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """`tapes` steps are held with their tapes at a time, and up to `slots` states beside the first
    one."""

    tapes: int
    slots: int = 0
    binomial: bool = True  # else one state every `tapes` steps

    def advance(self, length: int, free: int) -> int:
        """How many of `length` steps, more than `tapes`, to go before the next state is kept, with
        `free` slots."""
        units = -(-length // self.tapes)
        return self.tapes * (split(units, free) if self.binomial else 1)


def even_schedule(steps: int) -> Schedule:
    """As many segments as each has steps."""
    tapes = isqrt(steps - 1) + 1
    return Schedule(tapes=tapes, slots=-(-steps // tapes) - 1, binomial=False)


def best_schedule(steps: int, budget: float, state: int, tape: int) -> Schedule:
    """The schedule with the fewest extra steps for a budget and the sizes of a state and a tape,
    all in bytes."""
    if steps * tape <= budget:
        return Schedule(tapes=steps)
    most = min(int((budget - tape) // state), steps - 1)
    options = [
        Schedule(tapes=int((budget - slots * state) // tape), slots=slots)
        for slots in range(most + 1)
    ]
    return min(options, key=lambda plan: plan.tapes * repeated(-(-steps // plan.tapes), plan.slots))


def _rounds(units: int, slots: int) -> int:
    """The least r with beta(slots + 1, r) = C(slots + 1 + r, r) >= units: how often a unit is
    passed at most (Griewank 1992)."""
    r = 0
    while comb(slots + 1 + r, r) < units:
        r += 1
    return r


def repeated(units: int, slots: int) -> int:
    """The fewest units to pass without a tape when `units` are reversed with slots beside the first
    state: r l - beta(s + 1, r - 1)."""
    r = _rounds(units, slots)
    return r * units - comb(slots + 1 + r, r - 1) if r else 0


def split(units: int, slots: int) -> int:
    """How many of `units` (2 or more) lie before the next kept state: beta(s, r - 1), as far as the
    rest keeps r rounds."""
    if slots == 0:
        return units - 1
    r, s = _rounds(units, slots), slots + 1
    most = comb(s + r - 1, r - 1)
    return max(1, min(most, units - comb(s + r - 2, r - 1)))


def reverse(
    steps: int,
    plan: Schedule,
    start: Any,
    go: Callable[[int, int, Any], Any],
    pull: Callable[[int, int, Any, int], None],
) -> None:
    """Go back over steps, the last first: on from the last kept state until what is left fits on
    tapes, pull that back, drop the state.

    `go(k, goal, x)` gives the state at step `goal` from x at step k; `pull(k, end, x, kept)` goes
    over k to end on tapes and back, with so many states kept beside."""
    kept, end = [(0, start)], steps
    while kept:
        k, x = kept[-1]
        free = plan.slots - len(kept) + 1
        if end - k > plan.tapes:
            goal = k + plan.advance(end - k, free)
            x = go(k, goal, x)
            if free > 0:
                kept.append((goal, x))
                continue
            k = goal
        else:
            kept.pop()
        pull(k, end, x, len(kept) - bool(kept))
        end = k
