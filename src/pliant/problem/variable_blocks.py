"""The variables of a problem as blocks of one vector, with their first values and bounds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pliant.core import (
    InputError,
    Param,
    nearest,
    require_kind,
)
from pliant.problem.initial_parts import changed_parts, common_values
from pliant.problem.shares import group_means, group_shares, knot_shares
from pliant.problem.variable_scales import entries, scaled_block
from pliant.problem.variables import (
    CONTROLS,
    INITIAL,
    LOG_SCALED,
    Variable,
    VariableBlock,
    VariableLayout,
)

if TYPE_CHECKING:
    from pliant.problem.problem import Problem

# distance from an exclusive bound of a parameter, relative to its range or its scale
BOUND_MARGIN = 1e-6


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
    each = (variable.start, variable.groups)
    if len(blocks) > 1 and (any(v is not None for v in each) or np.ndim(variable.scale or 0) > 0):
        raise InputError(
            f"The variable '{name}' stands for {', '.join(p.name for p, _ in blocks)}; give a "
            "start, scales or groups to each of them."
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
    first = entries(label, variable.start, shape, guess, "start").ravel()
    return scaled_block(
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
        shares=share,
    )


def _param_block(
    problem: "Problem", variable: Variable, param: Param, at: int, n: int
) -> VariableBlock:
    log = variable.scale == "log" or (variable.scale is None and param.name.endswith(LOG_SCALED))
    target = slice(at, at + param.value.size)
    value, shares = problem.parameter_values[target], None
    if variable.groups is not None:
        shares = group_shares(param.name, variable.groups, value.size)
        value = group_means(shares, value, log=log)
    size = value.size
    first = entries(param.name, variable.start, (size,), value, "start")
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
    typical = param.typical or float(np.abs(first).max(initial=0.0)) or 1.0
    margin = BOUND_MARGIN * (width if np.isfinite(width) else typical)
    lower = param.lower if param.lower_included else param.lower + margin
    lower = 0.0 if log and param.lower == 0.0 else lower
    upper = param.upper if param.upper_included else param.upper - margin
    range_ = (np.full(size, lower), np.full(size, upper))
    # a value of the model closer to its bound than the margin stays admissible
    range_ = (np.minimum(range_[0], first), np.maximum(range_[1], first))
    values = problem.parameter_values.copy()
    values[target] = first if shares is None else shares @ first
    problem.model.params.split(values)  # raises InputError for inadmissible values
    return scaled_block(
        variable,
        name=param.name,
        kind="params",
        scenes=tuple(range(len(problem.scene_problems))),
        n=n,
        target=target,
        shape=(size,),
        first=first,
        reference=first if log else np.zeros(size),
        range_=range_,
        ends=(param.lower, param.upper),
        typical=np.full(size, typical),
        log=log,
        shares=shares,
    )


def _initial_block(
    problem: "Problem", variable: Variable, scenes: tuple[int, ...], n: int
) -> VariableBlock:
    scene = problem.scene_problems[scenes[0]]
    parts = changed_parts(scene.model.space, variable)
    sizes = [3 if name in parts.quaternions else parts.size(name) for name in parts.names]
    value = common_values(problem, variable, scenes)
    reference = np.zeros(sum(sizes)) if parts.quaternions else value
    first = entries(variable.name, variable.start, reference.shape, reference, "start")
    return scaled_block(
        variable,
        name=_label(problem, variable.name, scenes),
        kind=INITIAL,
        scenes=scenes,
        n=n,
        target=slice(parts.first, parts.first + len(reference)),
        shape=(len(value),),
        first=first,
        reference=reference,
        range_=(np.full(len(first), -np.inf), np.full(len(first), np.inf)),
        typical=np.repeat(parts.typical_sizes(scene.initial_state), sizes),
    )
