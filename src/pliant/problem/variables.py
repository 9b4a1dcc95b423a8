"""Variables: what a problem is optimised over, as one vector z of numbers of about 1.

A variable is v = r + s z with a reference r and a scale s, or v = r exp(z) for positive
parameters. A part of the initial state changes by s z from its start, along `Space.integrate`.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pliant.core import Array, InputError, Param, is_integer, nearest, quoted, require_kind

if TYPE_CHECKING:
    from pliant.problem.problem import Problem

CONTROLS = "controls"
INITIAL = "initial"
LOG_SCALED = (".E", ".density")  # ends of the names of positive parameters of unknown size
# distance from an exclusive bound of a parameter, relative to its range or its scale
BOUND_MARGIN = 1e-6


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

    def __post_init__(self) -> None:
        require_kind("The name of a variable", self.name, str, "give a name such as 'controls'")
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
    knots: Array | None = None  # (steps, n_knots) the share of each knot in the controls of a step

    def physical(self, z: Array) -> Array:
        """Return v (n,) for all variables z. Round-off does not exceed the bounds."""
        part = z[self.at]
        v = self.reference * np.exp(part) if self.log else self.reference + self.scale * part
        return np.clip(v, self.lower, self.upper)

    def slope(self, z: Array) -> Array:
        """Return dv/dz (n,)."""
        return self.reference * np.exp(z[self.at]) if self.log else self.scale

    def value(self, v: Array) -> Array:
        """Return the value of the variable from v (n,): controls of all steps from their knots."""
        return v.reshape(self.shape) if self.knots is None else self.knots @ v.reshape(self.shape)

    def value_vjp(self, bar: Array) -> Array:
        """Return the gradient (n,) by v from that by the value."""
        if self.knots is None:
            return bar.ravel()
        return (self.knots.T @ bar.reshape(len(self.knots), -1)).ravel()

    def value_jacobian(self, z: Array) -> Array:
        """Return the derivative (value's size, n) of the flat value by z."""
        slope = self.slope(z)
        return np.diag(slope) if self.knots is None else self._controls_jacobian(self.knots) * slope

    def step_jacobian(self, z: Array, k: int) -> Array:
        """Return the derivative (n_controls, n) of the controls of step k by z."""
        shares = np.eye(self.shape[0]) if self.knots is None else self.knots
        return self._controls_jacobian(shares[k]) * self.slope(z)

    def _controls_jacobian(self, shares: Array) -> Array:
        return np.kron(shares, np.eye(self.shape[1]))

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
        change = self.inputs(z, block.scenes[0]).change
        assert change is not None
        x = scene.model.space.integrate(scene.initial_state, change)
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
                params[block.target] = v
            else:
                size = problem.model.space.tangent_size
                change = np.zeros(size) if change is None else change
                change[block.target] = v - block.reference
        return SceneInputs(controls=controls, params=params, change=change)

    def params(self, z: Array) -> Array:
        """Return the parameters (n_params,) of the model."""
        found = self.inputs(z, 0).params
        return self.problem.parameter_values if found is None else found

    def params_gradient(self, z: Array, params: Array) -> Array:
        """Return the gradient (size,) by z from that by the parameters."""
        g = np.zeros(self.size)
        for block in self.blocks:
            if block.kind == "params":
                g[block.at] = block.slope(z) * params[block.target]
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


def layout_of(problem: "Problem") -> VariableLayout:
    """Return the variables of a problem. Raises InputError if they do not fit it."""
    blocks: list[VariableBlock] = []
    for variable in problem.variables:
        variable = Variable(variable) if isinstance(variable, str) else variable
        require_kind(
            "A variable of a problem", variable, Variable, "give a name, or a pl.problem.Variable"
        )
        makers = _makers(problem, variable)
        if not makers:
            raise InputError(
                "The controls are a variable, but every scene has fixed controls or a model "
                "without controls; omit the variable 'controls'."
            )
        for make in makers:
            n = blocks[-1].at.stop if blocks else 0
            block = make(n)
            if any(_overlap(block, other) for other in blocks):
                raise InputError(
                    f"The variable '{variable.name}' is given twice; name each variable once."
                )
            blocks.append(block)
    return VariableLayout(problem=problem, blocks=tuple(blocks))


def _overlap(a: VariableBlock, b: VariableBlock) -> bool:
    common = a.kind == b.kind and set(a.scenes) & set(b.scenes)
    return bool(common) and a.target.start < b.target.stop and b.target.start < a.target.stop


def _makers(problem: "Problem", variable: Variable) -> list[Any]:
    """Return a function from the first index in z for each block of a variable."""
    name, scenes = variable.name, problem.scene_problems
    if name == CONTROLS:
        return [
            lambda n, k=k: _controls_block(problem, variable, k, n)
            for k, scene in enumerate(scenes)
            if scene.controls is None and scene.model.n_controls
        ]
    if name == INITIAL or name.startswith(INITIAL + "."):
        every = tuple(range(len(scenes)))
        groups = [every] if variable.scenes == "shared" else [every[k : k + 1] for k in every]
        return [
            lambda n, group=group: _initial_block(problem, variable, group, n) for group in groups
        ]
    blocks, first = [], 0
    for param in problem.model.params.blocks:
        if param.name == name or param.name.startswith(name + "."):
            blocks.append((param, first))
        first += param.value.size
    if not blocks:
        raise InputError(f"There is no variable '{name}'; {_known_names(problem, name)}")
    if len(blocks) > 1 and (variable.start is not None or np.ndim(variable.scale or 0) > 0):
        raise InputError(
            f"The variable '{name}' stands for {', '.join(p.name for p, _ in blocks)}; give a "
            "start or scales to each of them."
        )
    return [
        lambda n, param=param, at=at: _param_block(problem, variable, param, at, n)
        for param, at in blocks
    ]


def _known_names(problem: "Problem", name: str) -> str:
    space = problem.scene_problems[0].model.space
    known = [block.name for block in problem.model.params.blocks]
    known += [CONTROLS] if problem.model.n_controls else []
    close = nearest(name, [*known, *(f"{INITIAL}.{part}" for part in space.parts)])
    group, _, key = name.partition(".")
    if group != INITIAL and key and not problem.model.params.blocks:
        return f"{close} Make the model with design=['{name}'] for a parameter of the robot."
    return close


def _label(problem: "Problem", name: str, scenes: Sequence[int]) -> str:
    """Return the name of a block, with that of its scene if there are several."""
    if len(problem.scene_problems) == len(scenes):
        return name
    return f"{name}[{problem.scene_name(scenes[0])}]"


def _controls_block(problem: "Problem", variable: Variable, k: int, n: int) -> VariableBlock:
    scene = problem.scene_problems[k]
    share = knot_shares(scene.steps, variable.knots)
    shape = (scene.steps if share is None else share.shape[1], scene.model.n_controls)
    bounds = [bound for bound in scene.control_bounds if bound.order == 0]
    lower = np.max([bound.lower for bound in bounds], axis=0)
    upper = np.min([bound.upper for bound in bounds], axis=0)
    label = _label(problem, CONTROLS, (k,))
    guess = scene.guess() if share is None else scene.guess()[share.argmax(axis=0)]
    first = _entries(label, variable.start, shape, guess, "start").ravel()
    return _block(
        variable,
        name=label,
        kind=CONTROLS,
        scenes=(k,),
        n=n,
        target=slice(0, scene.steps * shape[1]),
        shape=shape,
        first=first,
        reference=np.zeros(first.size),
        range_=(np.tile(lower, shape[0]), np.tile(upper, shape[0])),
        knots=share,
    )


def knot_shares(steps: int, knots: int | None) -> Array | None:
    """Return the share (steps, knots) of each knot in the controls of a step, for knots at equal
    distances in time; None for a knot in each step."""
    if knots is None:
        return None
    if not is_integer(knots) or not 2 <= knots <= steps:
        raise InputError(
            f"The controls have {quoted(knots)} knots in {steps} steps; give 2 or more, at most "
            "one for each step."
        )
    at = np.linspace(0.0, knots - 1.0, steps)
    return np.maximum(1.0 - np.abs(at[:, None] - np.arange(knots)), 0.0)


def _param_block(
    problem: "Problem", variable: Variable, param: Param, at: int, n: int
) -> VariableBlock:
    size = param.value.size
    value = problem.parameter_values[at : at + size]
    first = _entries(param.name, variable.start, (size,), value, "start")
    log = variable.scale == "log" or (variable.scale is None and param.name.endswith(LOG_SCALED))
    if log and param.lower >= 0.0 and np.any(first <= 0.0):
        raise InputError(
            f"The variable '{param.name}' starts at {first.min():g}, but its logarithmic scale "
            "needs a positive start. Give another start=, or a number as its scale."
        )
    if log and param.lower < 0.0:
        raise InputError(
            f"The variable '{param.name}' has a logarithmic scale, but it can be zero or negative; "
            "give a number as its scale."
        )
    width = param.upper - param.lower
    typical = float(np.abs(first).max(initial=0.0)) or 1.0
    margin = BOUND_MARGIN * (width if np.isfinite(width) else typical)
    lower = param.lower if param.lower_included else param.lower + margin
    lower = 0.0 if log and param.lower == 0.0 else lower
    range_ = (np.full(size, lower), np.full(size, param.upper - margin))
    # a value of the model closer to its bound than the margin stays admissible
    range_ = (np.minimum(range_[0], first), np.maximum(range_[1], first))
    problem.model.params.split(
        np.concatenate(
            [problem.parameter_values[:at], first, problem.parameter_values[at + size :]]
        )
    )
    return _block(
        variable,
        name=param.name,
        kind="params",
        scenes=tuple(range(len(problem.scene_problems))),
        n=n,
        target=slice(at, at + size),
        shape=(size,),
        first=first,
        reference=first if log else np.zeros(size),
        range_=range_,
        log=log,
    )


def _initial_block(
    problem: "Problem", variable: Variable, scenes: tuple[int, ...], n: int
) -> VariableBlock:
    scene = problem.scene_problems[scenes[0]]
    space, part = scene.model.space, variable.name.partition(".")[2]
    if part and part not in space.parts:
        raise InputError(
            f"There is no variable '{variable.name}': the state has the parts "
            f"{', '.join(space.parts)}."
        )
    sizes = [
        3 if name in space.quaternions else end - first
        for name, first, end in zip(space.parts, space.starts, space.starts[1:], strict=False)
    ]
    ends = np.cumsum([0, *sizes])
    index = space.parts.index(part) if part else 0
    target = slice(int(ends[index]), int(ends[index + 1] if part else ends[-1]))
    rotated = [name for name in ([part] if part else space.parts) if name in space.quaternions]
    if rotated and any(v is not None for v in (variable.lower, variable.upper, variable.start)):
        raise InputError(
            f"The variable '{variable.name}' has the quaternion '{rotated[0]}', for which there "
            "are no bounds and no start; give x0 to the problem or its scenes."
        )
    values = [_part_values(problem, k, part, bool(rotated)) for k in scenes]
    if any(not np.array_equal(values[0], other) for other in values[1:]):
        raise InputError(
            f"The variable '{variable.name}' is shared, but the scenes start from different "
            "states; give them the same x0, or take scenes='each'."
        )
    size = target.stop - target.start
    x, changed = scene.initial_state, range(index, index + 1) if part else range(len(sizes))
    largest = [np.abs(x[space.starts[j] : space.starts[j + 1]]).max(initial=0.0) for j in changed]
    typical = [
        1.0 if space.parts[j] in space.quaternions else most or 1.0
        for j, most in zip(changed, largest, strict=True)
    ]
    reference = np.zeros(size) if rotated else values[0]
    first = _entries(variable.name, variable.start, (size,), reference, "start")
    return _block(
        variable,
        name=_label(problem, variable.name, scenes),
        kind=INITIAL,
        scenes=scenes,
        n=n,
        target=target,
        shape=(len(values[0]),),
        first=first,
        reference=reference,
        range_=(np.full(size, -np.inf), np.full(size, np.inf)),
        typical=np.repeat(typical, [sizes[j] for j in changed]),
    )


def _part_values(problem: "Problem", k: int, part: str, rotated: bool) -> Array:
    scene = problem.scene_problems[k]
    x = scene.initial_state
    return np.asarray(getattr(scene.model.space.split(x), part)) if part else x


def _block(
    variable: Variable,
    *,
    n: int,
    first: Array,
    range_: tuple[Array, Array],
    typical: Array | None = None,
    log: bool = False,
    **parts: Any,
) -> VariableBlock:
    """Return a block with its scale and bounds."""
    name, size = parts["name"], first.size
    shape = parts["shape"] if parts["kind"] == CONTROLS else (size,)
    lower = np.maximum(
        range_[0], _entries(name, variable.lower, shape, range_[0], "lower", True).ravel()
    )
    upper = np.minimum(
        range_[1], _entries(name, variable.upper, shape, range_[1], "upper", True).ravel()
    )
    if np.any(lower > upper):
        k = int(np.argmax(lower > upper))
        raise InputError(
            f"The bounds of the variable '{name}' are {lower[k]:g} to {upper[k]:g}, which leaves "
            f"no value; the model allows {range_[0][k]:g} to {range_[1][k]:g}."
        )
    bad = np.flatnonzero(~((first >= lower) & (first <= upper)))
    if bad.size:
        k = int(bad[0])
        raise InputError(
            f"The variable '{name}' starts at {first[k]:g}, outside its bounds {lower[k]:g} to "
            f"{upper[k]:g}; give a start within them."
        )
    return VariableBlock(
        at=slice(n, n + size),
        first=first,
        lower=lower,
        upper=upper,
        log=log,
        scale=_scale(variable, name, shape, first, (lower, upper), typical),
        **parts,
    )


def _scale(
    variable: Variable,
    name: str,
    shape: tuple[int, ...],
    first: Array,
    bounds: tuple[Array, Array],
    typical: Array | None,
) -> Array:
    """Return the scales (n,). The default is half the width of the bounds of controls, and of two
    bounds that the variable names; else the largest value, or 1."""
    if isinstance(variable.scale, str):
        if variable.scale != "log" or name.split("[")[0] == CONTROLS or name.startswith(INITIAL):
            raise InputError(
                f"The scale of the variable '{name}' is {quoted(variable.scale)}; give a number, "
                "or 'log' for a positive parameter."
            )
        return np.ones(first.size)
    if typical is None:
        typical = np.full(first.size, float(np.abs(first).max(initial=0.0)) or 1.0)
    half = 0.5 * (bounds[1] - bounds[0])
    named = variable.lower is not None and variable.upper is not None
    wanted = np.isfinite(half) & (half > 0.0) & (named or name.split("[")[0] == CONTROLS)
    chosen = np.where(wanted, half, typical)
    scale = _entries(name, variable.scale, shape, chosen, "scale").ravel()
    if not np.all(scale > 0.0):
        raise InputError(f"The scale of the variable '{name}' must be positive everywhere.")
    return scale


def _entries(
    name: str,
    value: Any,
    shape: tuple[int, ...],
    default: Array,
    what: str,
    infinite: bool = False,
) -> Array:
    """Return `value` as an array of a shape, from a number, the last axes or all entries."""
    if value is None:
        return np.array(default, float)
    try:
        if isinstance(value, str | bool):
            raise TypeError
        array = np.array(np.broadcast_to(np.asarray(value, float), shape))
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The {what} of the variable '{name}' is {quoted(value)}; give a number, or numbers "
            f"of shape {shape}."
        ) from None
    if np.isnan(array).any() or not (infinite or np.isfinite(array).all()):
        raise InputError(f"The {what} of the variable '{name}' must be finite.")
    return array
