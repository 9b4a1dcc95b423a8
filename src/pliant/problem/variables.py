"""Variables: what a problem is optimised over, as one vector z of numbers of about 1.

A variable is v = r + s z with a reference r and a scale s, or v = r exp(z) for positive
parameters. A part of the initial state changes by s z from its start, along `Space.integrate`.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, initial_state_at, quoted, require_kind

if TYPE_CHECKING:
    from pliant.problem.problem import Problem

CONTROLS = "controls"
INITIAL = "initial"
LOG_SCALED = (".E", ".density")  # ends of the names of positive parameters of unknown size


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of a problem.

    Parameters
    ----------
    name : "controls", a block of `model.params` such as "soft.E" or "controller.hidden0", the
        beginning of several such as "controller", or "initial" or "initial.PART" for the initial
        state or a part of it
    lower, upper : bounds in units of the variable, a number or one for each entry; None for those
        of the parameter or the actuators. A quaternion has none.
    scale : typical change, a number or one for each entry; "log" for the logarithm of a positive
        parameter, which is the default for E and density; None to choose it from the bounds and
        the value
    start : first value; None for that of the model. Of controls: (n_controls,), or one row for
        each step or knot.
    knots : of controls: the number of rows that are variables, the first and the last step among
        them. Controls between knots are interpolated linearly in time. None for one in each step.
    scenes : of an initial state: "each" for one in each scene, or "shared" for a common one
    groups : of a parameter: an integer for each of its entries (n,). Entries with the same number
        have the same value, so there is one variable for each number. Bounds, scale and start are
        then one number, or one for each group in ascending order. `pl.design.field_groups` makes
        them for regions, blocks and symmetric designs.

    Problem raises InputError for values that do not fit the model.

    >>> import pliant as pl
    >>> stiffness = pl.problem.Variable("soft.E", lower=1e4, upper=1e6)
    """

    name: str
    _: KW_ONLY
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    scale: ArrayLike | str | None = None
    start: ArrayLike | None = None
    scenes: str = "each"
    knots: int | None = None
    groups: ArrayLike | None = None

    def __post_init__(self) -> None:
        require_kind("The name of a variable", self.name, str, "give a name such as 'controls'")
        if self.groups is not None and (self.name == CONTROLS or self.name.startswith(INITIAL)):
            raise InputError(
                f"The variable '{self.name}' has groups; only parameters have them, so omit groups."
            )
        if self.knots is not None and self.name != CONTROLS:
            raise InputError(
                f"The variable '{self.name}' has knots; only controls have them, so omit knots."
            )
        if self.scenes not in ("each", "shared"):
            raise InputError(
                f"The variable '{self.name}' has scenes={quoted(self.scenes)}; take 'each' or "
                "'shared'."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class VariableBlock:
    """A variable of some scenes, as an interval of z."""

    name: str  # of the result, such as "soft.E" or "controls[pushed]"
    kind: str  # "controls", "params" or "initial"
    scenes: tuple[int, ...]  # that it belongs to
    at: slice  # where it is in z
    target: slice  # where it is in the parameters, or in a change of the state
    shape: tuple[int, ...]  # of its value
    reference: Array  # (n,) r
    scale: Array  # (n,) s
    log: bool
    first: Array  # (n,) start, in units of the variable
    lower: Array  # (n,)
    upper: Array  # (n,)
    # (rows of the value, rows of the variable) the share of each row of the variable in each row of
    # the value: of knots in the controls of a step, of groups in the entries of a field
    shares: Any = None

    def physical(self, z: Array) -> Array:
        """Return v (n,) for all variables z. Round-off does not exceed the bounds."""
        part = z[self.at]
        v = self.reference * np.exp(part) if self.log else self.reference + self.scale * part
        return np.clip(v, self.lower, self.upper)

    def slope(self, z: Array) -> Array:
        """Return dv/dz (n,)."""
        return self.reference * np.exp(z[self.at]) if self.log else self.scale

    def value(self, v: Array) -> Array:
        """Return the value of the variable from v (n,): controls of all steps from their knots, or
        all entries of a field from their groups."""
        rows = v.reshape(self.shape)
        return rows if self.shares is None else self.shares @ rows

    def value_vjp(self, bar: Array) -> Array:
        """Return the gradient (n,) by v from that by the value."""
        if self.shares is None:
            return bar.ravel()
        return np.asarray(self.shares.T @ bar.reshape(self.shares.shape[0], -1)).ravel()

    def value_jacobian(self, z: Array) -> Array:
        """Return the derivative (value's size, n) of the flat value by z."""
        slope = self.slope(z)
        if self.shares is None:
            return np.diag(slope)
        shares = self.shares.toarray() if sp.issparse(self.shares) else self.shares
        return np.kron(shares, np.eye(int(np.prod(self.shape[1:])))) * slope

    def step_jacobian(self, z: Array, k: int) -> Array:
        """Return the derivative (n_controls, n) of the controls of step k by z."""
        shares = np.eye(self.shape[0]) if self.shares is None else self.shares
        return np.kron(shares[k], np.eye(self.shape[1])) * self.slope(z)

    def scaled(self, v: Array) -> Array:
        """Return z (n,) for values v."""
        with np.errstate(divide="ignore"):
            return np.log(v / self.reference) if self.log else (v - self.reference) / self.scale


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneInputs:
    """What a scene is simulated with."""

    controls: Array  # (steps, n_controls)
    params: Array | None  # (n_params,); None for those of the problem
    change: Array | None  # (tangent_size,) of the initial state; None for none


@dataclass(frozen=True, kw_only=True, eq=False)
class VariableLayout:
    """All variables of a problem as one vector z (size,)."""

    problem: "Problem"
    blocks: tuple[VariableBlock, ...]

    @property
    def size(self) -> int:
        """The length of z."""
        return self.blocks[-1].at.stop if self.blocks else 0

    @cached_property
    def start(self) -> Array:
        """The first z (size,)."""
        return np.concatenate([block.scaled(block.first) for block in self.blocks])

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The lower and upper bounds of z, (size,) each."""
        lower, upper = (
            np.concatenate([block.scaled(getattr(block, side)) for block in self.blocks])
            for side in ("lower", "upper")
        )
        return lower, upper

    def values(self, z: Array) -> dict[str, Array]:
        """Return the values of the variables by name, in their units."""
        out = {}
        for block in self.blocks:
            v = block.physical(z)
            if block.kind == INITIAL:
                v = self._initial_value(block, z)
            out[block.name] = block.value(v)
        return out

    def _initial_value(self, block: VariableBlock, z: Array) -> Array:
        """Return the part of the initial state of the first scene of a block."""
        scene = self.problem.scene_problems[block.scenes[0]]
        x = self.initial_state(block.scenes[0], self.inputs(z, block.scenes[0]))
        part = block.name.split("[")[0].removeprefix(INITIAL).removeprefix(".")
        return x if not part else np.asarray(getattr(scene.model.space.split(x), part))

    def of_scene(self, scene: int) -> list[VariableBlock]:
        """Return the blocks of a scene."""
        return [block for block in self.blocks if scene in block.scenes]

    def inputs(self, z: Array, scene: int) -> SceneInputs:
        """Return the controls, parameters and initial state of a scene."""
        problem = self.problem.scene_problems[scene]
        controls, params, change = problem.fixed_controls, None, None
        for block in self.of_scene(scene):
            v = block.physical(z)
            if block.kind == CONTROLS:
                controls = block.value(v)
            elif block.kind == "params":
                params = problem.parameter_values.copy() if params is None else params
                params[block.target] = block.value(v)
            else:
                size = problem.model.space.tangent_size
                change = np.zeros(size) if change is None else change
                change[block.target] = v - block.reference
        return SceneInputs(controls=controls, params=params, change=change)

    def initial_state(self, scene: int, inputs: SceneInputs) -> Array:
        """Return the initial state (n_state,) of a scene. That of a model whose start depends on
        its parameters, such as a shape, follows them."""
        problem = self.problem.scene_problems[scene]
        x = problem.initial_state
        if problem.x0 is None and inputs.params is not None:
            x = initial_state_at(problem.model, inputs.params)
        return x if inputs.change is None else problem.model.space.integrate(x, inputs.change)

    def params(self, z: Array) -> Array:
        """Return the parameters (n_params,) of the model."""
        found = self.inputs(z, 0).params
        return self.problem.parameter_values if found is None else found

    def params_gradient(self, z: Array, params: Array) -> Array:
        """Return the gradient (size,) by z from that by the parameters."""
        g = np.zeros(self.size)
        for block in self.blocks:
            if block.kind == "params":
                g[block.at] = block.slope(z) * block.value_vjp(params[block.target])
        return g

    def gradient(
        self, z: Array, scene: int, controls: Array, params: Array, change: Array
    ) -> Array:
        """Return the gradient (size,) by z from those by the inputs of a scene."""
        g = np.zeros(self.size)
        by_kind = {CONTROLS: controls.ravel(), "params": params, INITIAL: change}
        for block in self.of_scene(scene):
            g[block.at] = block.slope(z) * block.value_vjp(by_kind[block.kind][block.target])
        return g

    def changes(self, z: Array, scene: int, kind: str, size: int) -> Array:
        """Return the derivative (size, self.size) of one kind of inputs of a scene by z."""
        out = np.zeros((size, self.size))
        for block in self.of_scene(scene):
            if block.kind == kind:
                out[block.target, block.at] = block.value_jacobian(z)
        return out
