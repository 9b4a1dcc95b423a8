"""Model predictive control: a plan followed in receding horizon from readings of its effectors (the
future work of paper 001).

The model is the plan's own run, condensed to effectors and actuators over time: G[k, j] =
dp_{k+1+j}/du_k, exact sensitivities of the whole model along the plan, found once. What a reading
shows beyond the prediction is a drift d of the places, estimated by a filter of constant gain and
taken to stay; so a force or an error of the material that the model does not know leaves no lasting
error (offset-free control). At every step a small quadratic program finds the controls of the
horizon, within their limits; the first of them acts.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from pliant.core import (
    Array,
    InputError,
    Linearizable,
    finite_array,
    is_whole,
    quoted,
    require_kind,
    require_number,
)
from pliant.dynamics.simulate import march
from pliant.planners.plan import Plan, check_exact
from pliant.planners.quadratic import solve_program
from pliant.problem import Band, Problem


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """What a controller knows at step k."""

    k: int
    # (memory, n_controls) how far the controls of the last steps were from the plan's, the latest
    # last
    moves: Array
    drift: Array  # (n_places,) [m] how far the effectors are from where the model has them


@dataclass(frozen=True, kw_only=True, eq=False)
class Receding:
    """A controller; made by mpc. After the plan's end it holds what the plan ended with."""

    effectors: tuple[str, ...]
    places: (
        Array  # (steps + memory, n_places) [m] along the plan, which goes on with its last control
    )
    wanted: Array  # (n, n_places) [m] where the effectors are to be, the last for ever
    controls: Array  # (steps, n_controls)
    response: Array  # (steps, memory, n_places, n_controls) [m per unit] G
    bands: tuple[Band, ...]  # the limits of the controls, their rates and accelerations
    before: Array  # (n_controls,) the control that stood before the first step
    horizon: int
    gain: float  # of the drift's filter
    effort: float  # weight of a change of a move by one range beside a miss of the plan's size

    @property
    def _last(self) -> int:
        return len(self.controls) - 1

    def begin(self) -> Memory:
        """Before the first step."""
        _, memory, places, m = self.response.shape
        return Memory(k=0, moves=np.zeros((memory, m)), drift=np.zeros(places))

    def expected(self, memory: Memory) -> Array:
        """(n_places,) [m] where the model has the effectors at step k, without the drift."""
        return self._coming(memory)[0]

    def _coming(self, memory: Memory) -> Array:
        """(horizon + 1, n_places) [m] the places at step k and after it, if the plan's controls
        follow."""
        k, J, H = memory.k, self.response.shape[1], self.horizon
        out = self.places[np.minimum(np.arange(k, k + H + 1), len(self.places) - 1)].copy()
        for back in range(
            1, min(J, k) + 1
        ):  # u_{k-back} acts on p_{k-back+1+j}, so on p_{k+i} with j = back - 1 + i
            G = self.response[min(k - back, self._last), back - 1 :][: H + 1]
            out[: len(G)] += G @ memory.moves[-back]
        return out

    def read(self, memory: Memory, reading: Array) -> Memory:
        """What is known after the effectors were seen at step k: the drift follows the surprise by
        its gain."""
        seen = finite_array("The reading", np.ravel(reading), memory.drift.shape, "m")
        return replace(
            memory, drift=memory.drift + self.gain * (seen - self.expected(memory) - memory.drift)
        )

    def act(self, memory: Memory, reading: Array | None) -> tuple[Array, Memory]:
        """(the control (n_controls,) of step k, what is known after it) from a reading (n_places,)
        [m], None where there is none."""
        require_kind(
            "What the controller knows",
            memory,
            Memory,
            "begin with controller.begin(), and hand on what act gives",
        )
        memory = memory if reading is None else self.read(memory, reading)
        planned = self.controls[min(memory.k, self._last)]
        u = np.clip(planned + self._moves(memory)[0], *self._limits)
        moves = np.concatenate([memory.moves[1:], (u - planned)[None]])
        return u, replace(memory, k=memory.k + 1, moves=moves)

    def _moves(self, memory: Memory) -> Array:
        """(horizon, n_controls) the moves from the plan's controls that bring the effectors to
        where they are wanted."""
        k, H, m = memory.k, self.horizon, self.controls.shape[1]
        ahead = np.minimum(np.arange(k + 1, k + H + 1), len(self.wanted) - 1)
        miss = (self._coming(memory)[1:] + memory.drift - self.wanted[ahead]).ravel()
        F = self._map(min(k, self._last))
        weight = self.effort * np.tile(self._size / self._range, H) ** 2
        change = np.eye(H * m) - np.eye(
            H * m, k=-m
        )  # of the moves from step to step: a lasting one costs nothing, so leaves no offset
        before = np.concatenate([memory.moves[-1], np.zeros((H - 1) * m)])
        P = F.T @ F + change.T @ (weight[:, None] * change)
        g = F.T @ miss - change.T @ (weight * before)
        scale = max(float(np.abs(np.diag(P)).max()), 1e-300)
        none = sp.csc_matrix((0, H * m))
        found = solve_program(
            sp.csc_matrix(P / scale), g / scale, none, np.zeros(0), *self._kept(memory)
        )
        return found.reshape(H, m)

    def _kept(self, memory: Memory) -> tuple[sp.csc_matrix, Array, Array]:
        """(G, low, high): low <= G moves <= high by all limits over the horizon."""
        k, H, m = memory.k, self.horizon, self.controls.shape[1]
        now = self.controls[np.minimum(np.arange(k, k + H), self._last)]
        used = lambda j: (
            self.controls[min(k - j, self._last)] + memory.moves[-j] if k >= j else self.before
        )  # u_{k-j}
        G, low, high = [], [], []
        for band in self.bands:
            c = band.stencil
            whole = np.concatenate([*(used(j)[None] for j in range(len(c) - 1, 0, -1)), now])
            value = sum(
                (c[j] * whole[len(c) - 1 - j : len(c) - 1 - j + H] for j in range(len(c))),
                np.zeros((H, m)),
            )
            G.append(
                sp.diags(
                    [np.full((H - j) * m, c[j]) for j in range(min(len(c), H))],
                    [-j * m for j in range(min(len(c), H))],
                    shape=(H * m, H * m),
                )
            )
            low.append((band.lower - value).ravel())
            high.append((band.upper - value).ravel())
        return sp.vstack(G, format="csc"), np.concatenate(low), np.concatenate(high)

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        """((n_controls,), (n_controls,)) of the controls themselves."""
        own = [band for band in self.bands if band.order == 0]
        return np.max([band.lower for band in own], axis=0), np.min(
            [band.upper for band in own], axis=0
        )

    @cached_property
    def _range(self) -> Array:
        lower, upper = self._limits
        return np.where(
            np.isfinite(upper - lower),
            upper - lower,
            np.maximum(np.abs(self.controls).max(axis=0), 1e-300),
        )

    @cached_property
    def _size(self) -> float:
        """[m] the size of the motion."""
        return max(float(np.linalg.norm(self.wanted - self.wanted[0], axis=1).max()), 1e-300)

    def _map(self, k: int) -> Array:
        """(horizon n_places, horizon n_controls) what the moves do to the places of the horizon."""
        _, J, r, m = self.response.shape
        F = np.zeros((self.horizon, r, self.horizon, m))
        for i in range(self.horizon):
            G = self.response[min(k + i, self._last)]
            n = min(J, self.horizon - i)
            F[i : i + n, :, i] = G[:n]
        return F.reshape(self.horizon * r, self.horizon * m)


def mpc(
    problem: Problem,
    plan: Plan,
    *,
    effectors: tuple[str, ...] | str,
    wanted: Array | None = None,
    horizon: int = 20,
    memory: int = 60,
    gain: float = 0.2,
    effort: float = 1e-3,
) -> Receding:
    """A controller that follows a plan of a problem, from readings of the effectors' places.

    `wanted` (n, n_places) [m] is where the effectors are to be at step 0, 1, ..., the last for
    ever; None: where the plan has them. A control counts for `memory` steps, which should be as
    long as the robot swings; the `gain` of the drift's estimate, between 0 and 1, trades noise for
    quickness. The limits of the problem are kept, its constraints are not looked at.
    """
    check_exact(problem, "mpc")
    require_kind(
        "The plan of mpc", plan, Plan, "give what a planner returned, not its controls alone"
    )
    effectors = (effectors,) if isinstance(effectors, str) else effectors
    require_kind(
        "The model of mpc",
        problem.model,
        Linearizable,
        "take a rule that can be linearised, such as SemiImplicit",
    )
    for name, value in (("horizon", horizon), ("memory", memory)):
        if not is_whole(value) or value < 1:
            raise InputError(
                f"The {name} of mpc is {quoted(value)} steps; give a whole number, 1 or more."
            )
    if not 0.0 < require_number("The gain of mpc", gain, "-") <= 1.0:
        raise InputError(f"The gain of mpc is {gain:g}; give one above 0, and at most 1.")
    if not 0.0 < require_number("The effort of mpc", effort, "-") < np.inf:
        raise InputError(f"The effort of mpc is {effort:g}; give a positive weight.")
    if plan.controls.shape != (problem.steps, problem.model.n_controls):
        raise InputError(
            f"The plan has controls {plan.controls.shape}, but the problem needs "
            f"{(problem.steps, problem.model.n_controls)}; give the problem that was planned."
        )
    if plan.states.shape != (problem.steps + 1, problem.model.space.size):
        raise InputError(
            f"The plan's states have {plan.states.shape[1]} numbers, but the problem's model "
            f"{problem.model.space.size}; give the problem that was planned."
        )
    if not effectors:
        raise InputError(
            "mpc was given no effector to follow; name one or more of the robot, such as "
            "effectors=('tip',)."
        )
    rows = sp.vstack([problem.model.effector_rows(name) for name in effectors], format="csr")
    places, G = responses(problem, plan.controls, rows, memory)
    planned = np.array([rows @ problem.model.space.position(x) for x in plan.states])
    if not np.allclose(
        places[: len(planned)],
        planned,
        rtol=0.0,
        atol=1e-6 * max(float(np.ptp(planned, axis=0).max()), 1e-9),
    ):
        raise InputError(
            "The plan's controls lead elsewhere in this problem: its time step, first state or "
            "robot is another one; give the problem that was planned."
        )
    goal = (
        planned
        if wanted is None
        else finite_array(
            "The array of wanted places of mpc", wanted, (None, planned.shape[1]), "m"
        )
    )
    if not np.any(G):
        raise InputError(
            f"No control moves the effectors {', '.join(effectors)} (W_ea = 0), so that nothing "
            "can be corrected; attach the actuators where they move them, or name other "
            "effectors."
        )
    return Receding(
        effectors=tuple(effectors),
        places=places,
        wanted=goal,
        controls=plan.controls,
        response=G,
        bands=problem.bands,
        before=problem.first_control,
        horizon=horizon,
        gain=float(gain),
        effort=float(effort),
    )


def responses(
    problem: Problem, controls: Array, rows: sp.csr_matrix, memory: int
) -> tuple[Array, Array]:
    """((steps + memory, n_places) [m] the places, (steps, memory, n_places, n_controls) G) along
    the run of some controls, which goes on with the last of them, by forward sweeps."""
    model: Linearizable = problem.model  # type: ignore[assignment]  # checked by mpc
    N, m = len(controls), model.n_controls
    longer = np.concatenate([controls, np.tile(controls[-1], (memory - 1, 1))])
    p = None if problem.params is None else np.asarray(problem.params, float)
    places = [rows @ model.space.position(problem.start)]
    G = np.zeros((N, memory, rows.shape[0], m))
    S, first = np.zeros((model.space.size, 0)), 0  # columns of the controls first, first + 1, ...
    for t, (_, step) in enumerate(march(model, longer, len(longer), problem.start, p)):
        places.append(rows @ model.space.position(step.x))
        lin = model.linearize(step)
        S = lin.jvp(S) if S.shape[1] else S
        S = np.concatenate([S, lin.dense_controls()], axis=1) if t < N else S
        seen = (rows @ S[: model.space.n_dofs]).reshape(rows.shape[0], -1, m)
        for j in range(seen.shape[1]):
            G[first + j, t - first - j] = seen[:, j]
        if t - first + 1 >= memory:
            S, first = S[:, m:], first + 1
    return np.array(places), G
