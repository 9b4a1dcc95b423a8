"""A robot's equations of motion: energies, forces and tangents of its body, attachments and
contacts on the free unknowns."""

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from pliant.actuators import AttachedLiquid, liquid_of
from pliant.actuators.hydraulic import check_cavities_distinct
from pliant.bodies import (
    Body,
    DampedBody,
    Dissipation,
    MaterialDerivatives,
    MaterialFields,
    Potential,
    SecondOrderBody,
    parameters_of,
    require_protocol,
    with_own_values,
)
from pliant.bodies.design import Design, valid_names
from pliant.contact import AttachedContact, Friction
from pliant.core import Array, InputError, Param, Params, finite_array, nearest, require_kind
from pliant.dynamics.attachments import Attachments
from pliant.dynamics.liquid_inertia import LiquidInertia
from pliant.dynamics.tangent import Tangent
from pliant.robot import Load, Robot, Support
from pliant.robot.actuation import for_each_actuator
from pliant.robot.parameters import general_parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCoefficients:
    """The coefficients that depend on the parameters: fields of each cell, mass of each node
    pair."""

    fields: MaterialFields
    mass: sp.csr_matrix  # (n_nodes, n_nodes) [kg] of the body and its liquids at rest
    pair_mass: Array  # (n_pairs,) [kg]
    weight: Array  # (n_dofs,) [N] gravity on the body without its liquids
    external_force: Array  # (n_dofs,) [N] gravity, and the loads at one time


@dataclass(frozen=True, kw_only=True, eq=False)
class Equations(Attachments):
    """The equations of a robot that do not depend on the time-stepping rule. Vectors are (n_dofs,)
    unless a docstring gives another shape. Raises InputError if the robot is inconsistent."""

    robot: Robot
    design: Sequence[str] = ()  # active parameters: "soft.E", "cells.density", "gravity.z", ...
    solver: str | None = None

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        for part in (
            "potentials",
            "variables",
            "held",
            "gravity",
            "_default_coefficients",
            "tangent",
        ):
            getattr(self, part)  # raise InputError now, not at the first step
        if self.variables.material_names:
            self.differentiable_body  # noqa: B018
        if "damping.stiffness" in self.design:
            self.damped_body  # noqa: B018
        for name in self.robot.effectors:
            self.robot.effector_weights(name)

    @cached_property
    def body(self) -> Body:
        return self.robot.body()

    @property
    def differentiable_body(self) -> MaterialDerivatives:
        """The body, if it can be differentiated by its material. Raises `InputError` otherwise."""
        return require_protocol(self.body, MaterialDerivatives, "A design parameter")

    @property
    def damped_body(self) -> DampedBody:
        """The body, if it has stiffness damping. Raises `InputError` otherwise."""
        return require_protocol(self.body, DampedBody, "Stiffness damping")

    @property
    def second_order_body(self) -> SecondOrderBody:
        """The body, if it has third derivatives. Raises `InputError` otherwise."""
        return require_protocol(self.body, SecondOrderBody, "A second derivative")

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.body.dim

    @cached_property
    def n_dofs(self) -> int:  # type: ignore[override]
        return self.body.rest.size

    # Attachments

    @cached_property
    def _parts(self) -> tuple[tuple[str, Potential, slice], ...]:
        """Each attached potential with the group of its parameters and its slice of the controls:
        actuators first, then contacts, the weight of liquids and elastic supports."""
        made = for_each_actuator(self.robot, lambda actuator: actuator.attach(self.body))
        check_cavities_distinct(self.robot.actuators, self.body)
        self._warn_about_idle_actuators(made)
        names = [f"actuators.{name}" for name in self.robot.actuators]
        actuators = [
            (group, with_own_values(term, group, valid_names(self.design)), part)
            for group, (term, part) in zip(names, made, strict=True)
        ]
        contacts = [
            (f"contact{k}", contact.attach(self.body))
            for k, contact in enumerate(self.robot.contacts)
        ]
        supports = [
            (f"support{k}", support.attach(self.body))
            for k, support in enumerate(self.robot.supports)
            if support.stiffness is not None
        ]
        liquids = [("gravity", liquid) for liquid in self._attached_liquids()]
        passive: list[tuple[str, Potential]] = [*contacts, *liquids, *supports]
        end = slice(self.robot.n_controls, self.robot.n_controls)
        return (*actuators, *((group, term, end) for group, term in passive))

    @cached_property
    def potentials(self) -> tuple[tuple[Potential, slice], ...]:  # type: ignore[override]
        """Each attached potential with its slice of the controls: actuators first."""
        return tuple((term, part) for _, term, part in self._parts)

    @cached_property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(group for group, _, _ in self._parts)

    def _warn_about_idle_actuators(self, made: list[tuple[Potential, slice]]) -> None:
        """Warn about actuators that act only on nodes fixed by supports."""
        held = np.all(self.held.reshape(-1, self.dim), axis=1)
        for name, (term, part) in zip(self.robot.actuators, made, strict=True):
            if part.stop > part.start and held[np.unique(term.weights.indices)].all():
                warnings.warn(
                    f"Actuator '{name}' of {self.robot.name} acts only on nodes that supports "
                    "hold, so it moves nothing; attach it to free parts of the body.",
                    stacklevel=2,
                )

    def _attached_liquids(self) -> list[AttachedLiquid]:
        """Return the liquids in the cavities of hydraulic actuators, under the robot's gravity."""
        made = for_each_actuator(
            self.robot, lambda actuator: liquid_of(actuator, self.body, self.robot.gravity)
        )
        return [liquid for liquid, _ in made if liquid is not None]

    @cached_property
    def liquids(self) -> tuple[LiquidInertia, ...]:
        """The inertia of each liquid."""
        return tuple(
            LiquidInertia(liquid=term, index=k)
            for k, (term, _) in enumerate(self.potentials)
            if isinstance(term, AttachedLiquid)
        )

    @cached_property
    def frictions(self) -> tuple[tuple[str, Friction], ...]:
        """The friction of each contact that has it, or that has it as a design parameter, with the
        group of its parameters."""
        return tuple(
            (group, Friction(contact=term))
            for group, term, _ in self._parts
            if isinstance(term, AttachedContact)
            and (term.contact.friction > 0.0 or f"{group}.friction" in self.design)
        )

    @cached_property
    def dissipations(self) -> tuple[Dissipation, ...]:
        return tuple(friction for _, friction in self.frictions)

    @cached_property
    def _constant_load(self) -> Array:
        return sum(
            (load.attach(self.body) for load in self.robot.loads if not load.is_time_dependent),
            np.zeros(self.n_dofs),
        )

    @cached_property
    def _time_dependent_loads(self) -> tuple[tuple[Load, Array], ...]:
        """The time-dependent loads, each with its forces (n_dofs, n) per unit."""
        return tuple(
            (load, load.unit_forces(self.body))
            for load in self.robot.loads
            if load.is_time_dependent
        )

    def _time_dependent_force(self, time: float) -> Array:
        parts = (
            columns @ load.value(self.dim, time) for load, columns in self._time_dependent_loads
        )
        return sum(parts, np.zeros(self.n_dofs))

    @cached_property
    def gravity(self) -> Array:
        """The acceleration of gravity (n_dofs,) [m/s^2]; zero for rotational unknowns."""
        dim = self.body.dim
        g = (
            np.zeros(dim)
            if self.robot.gravity is None
            else finite_array("Gravity", self.robot.gravity, (dim,), "m/s^2")
        )
        return np.outer(self.body.is_position, g).ravel()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """Return the matrix (dim, n_dofs) that maps positions to the effector's position."""
        return sp.kron(self.robot.effector_weights(name), sp.identity(self.body.dim), format="csr")

    def attached(self, name: str) -> tuple[Potential, sp.csr_matrix]:
        """Return the potential of an actuator by its name, and the matrix (n_points dim, n_dofs) of
        its points. Raises InputError for an unknown name."""
        if name not in self.robot.actuators:
            raise InputError(
                f"{self.robot.name} has no actuator '{name}'; {nearest(name, self.robot.actuators)}"
            )
        term = self.potentials[list(self.robot.actuators).index(name)][0]
        return term, sp.kron(term.weights, sp.identity(self.dim), format="csr")

    # Supports

    @cached_property
    def held(self) -> Array:
        """The unknowns (n_dofs,), bool, that supports prescribe."""
        held = np.zeros(self.n_dofs, bool)
        for dofs, _ in self._supports:
            held[dofs] = True
        return held

    @cached_property
    def free(self) -> Array:
        return np.flatnonzero(~self.held)

    @cached_property
    def potentials_use_held_nodes(self) -> bool:
        """Whether a potential depends on a node with held unknowns."""
        nodes = np.unique(np.flatnonzero(self.held) // self.dim)
        return self._all_points[0][:, nodes].nnz > 0

    @cached_property
    def _supports(self) -> list:
        out = []
        for support in self._rigid_supports:
            axes, nodes = support.held_axes(self.body.dim), support.nodes_of(self.body)
            out.append(
                ((nodes[:, None] * self.body.dim + np.array(axes)).ravel(), (support.motion, axes))
            )
        return out

    @property
    def _rigid_supports(self) -> list[Support]:
        return [support for support in self.robot.supports if support.stiffness is None]

    @cached_property
    def _has_shared_unknowns(self) -> bool:
        """Whether two supports with different motions share unknowns."""
        pairs = combinations(self._supports, 2)
        return any(a[1][0] is not b[1][0] and np.intersect1d(a[0], b[0]).size for a, b in pairs)

    def _check_shared_unknowns(self, placed: list[tuple[Array, Array]], time: float) -> None:
        """Raise InputError if supports prescribe different positions for an unknown. `placed` has
        the unknowns (k,) and positions (k,) [m] of each support."""
        for (i, (a, x)), (j, (b, y)) in combinations(enumerate(placed), 2):
            _, at_a, at_b = np.intersect1d(a, b, return_indices=True)
            # Two formulas of the same motion agree to some thousand roundings of the position [m].
            rounding = 4e3 * np.finfo(float).eps * np.maximum(1.0, np.abs(x[at_a]))
            apart = np.abs(x[at_a] - y[at_b])
            if (differs := apart > rounding).any():
                first, second = (self._rigid_supports[k].label for k in (i, j))
                raise InputError(
                    f"The supports on {first} and on {second} hold {np.sum(differs)} common "
                    f"unknowns of {self.robot.name} up to {apart.max():.3g} m apart at t = "
                    f"{time:g} s; give both the same motion, or regions without common nodes."
                )

    def place_supports(self, q: Array, time: float) -> Array:
        """Return a copy of q with the positions that supports prescribe at a time [s]."""
        q, placed = q.copy(), []
        for dofs, (motion, axes) in self._supports:
            dim = self.body.dim
            move = (
                np.zeros(dim)
                if motion is None
                else finite_array(
                    f"The motion of a support at t = {time:g} s", motion(time), (dim,), "m"
                )
            )
            shift = np.outer(
                self.body.is_position[dofs[:: len(axes)] // dim], move[axes]
            ).ravel()  # a motion translates positions and does not rotate
            q[dofs] = self.body.rest[dofs] + shift
            placed.append((dofs, q[dofs]))
        if self._has_shared_unknowns:
            self._check_shared_unknowns(placed, time)
        return q

    def free_rigid_motions(self) -> list[str]:
        """Return the names of the rigid motions that neither supports nor springs prevent."""
        dim, x, is_position = (
            self.dim,
            self.body.rest.reshape(-1, self.body.dim),
            self.body.is_position,
        )
        held = self.held.reshape(x.shape).any(axis=1) & is_position
        middle = x[held].mean(axis=0) if held.any() else x[is_position].mean(axis=0)
        planes = [(1, 2), (2, 0), (0, 1)] if dim == 3 else [(0, 1)]
        names = [f"translation along {'xyz'[a]}" for a in range(dim)]
        names += (
            [f"rotation about {'xyz'[a]}" for a in range(3)]
            if dim == 3
            else ["rotation in the plane"]
        )
        modes = [np.outer(is_position, np.eye(dim)[a]) for a in range(dim)]
        for axis, (i, j) in enumerate(planes):
            rotation = np.zeros_like(x)
            rotation[:, i], rotation[:, j] = -(x - middle)[:, j], (x - middle)[:, i]
            rotation[~is_position] = np.eye(3)[axis, :dim]
            modes.append(rotation)
        basis = np.stack(
            [
                mode.ravel() / np.linalg.norm(mode) if np.any(mode) else mode.ravel()
                for mode in modes
            ],
            axis=1,
        )
        neutral = self.robot.neutral_controls()
        restoring_force = lambda mode: self.potential_stiffness_times(
            self.body.rest, neutral, mode, stiff_only=True
        )
        spring_forces, random_motion = (
            [restoring_force(mode) for mode in basis.T],
            np.random.default_rng(0).standard_normal(self.n_dofs),
        )
        # The scale includes a random motion: a fluid of given volume resists it, but resists rigid
        # motions only by round-off.
        relative_forces = np.stack(spring_forces, axis=1) / max(
            1e-300,
            *(
                float(np.linalg.norm(f))
                for f in (*spring_forces, restoring_force(random_motion / self.n_dofs**0.5))
            ),
        )
        rows = np.vstack([basis[self.held], relative_forces, np.zeros((len(names), len(names)))])
        _, s, vt = np.linalg.svd(rows, full_matrices=False)
        free_motions = vt[s < 1e-9 * max(1.0, s.max(initial=0.0))]
        return [
            names[k]
            for k in range(len(names))
            if free_motions.size and np.abs(free_motions[:, k]).max() > 1e-6 and np.any(modes[k])
        ]

    # Parameters

    @cached_property
    def variables(self) -> Design:
        return Design(body=self.body, names=self.design, others=self._other_parameters)

    @property
    def _other_parameters(self) -> dict[str, Param]:
        """All parameters that are not of the material, by name."""
        out = general_parameters(self.robot, self.body.dim)
        for group, term, _ in self._parts:
            for param in parameters_of(term):
                name = f"{group}.{param.name}"
                out.setdefault(name, replace(param, name=name))
        return out

    def with_values(self, robot: Robot, values: Mapping[str, float]) -> "Equations":
        """Return the equations of `robot`, which differs from this robot by the values of some
        parameters that are not of the material. It shares the body, the supports and the analysis
        of the matrix."""
        parts = []
        for group, term, part in self._parts:
            names = [param.name for param in parameters_of(term)]
            changes = {
                name: values[f"{group}.{name}"] for name in names if f"{group}.{name}" in values
            }
            parts.append((group, term.with_parameters(changes) if changes else term, part))  # type: ignore[attr-defined]
        other = copy(self)
        stale = ["potentials", "liquids", "frictions", "dissipations", "gravity", "variables"]
        terms = zip(parts, self._parts, strict=True)
        if any(new[1].weights is not old[1].weights for new, old in terms):  # a point has moved
            stale += ["tangent", "_all_points", "_transposed_weights"]
        for name in stale:
            vars(other).pop(name, None)
        vars(other).pop("_default_coefficients", None)
        vars(other).update(robot=robot, _parts=tuple(parts))
        return other

    @property
    def params(self) -> Params:
        return self.variables.params

    def coefficients(self, p: Array | None, time: float = 0.0) -> ModelCoefficients:
        """Return the fields and masses for a parameter vector (default: the robot's values), with
        the loads at a time [s], the end of a step."""
        fields = self.variables.fields(p)
        return self.with_loads_at(
            self._default_coefficients
            if fields is self.body.fields
            else self._coefficients(fields),
            time,
        )

    def with_loads_at(self, coefficients: ModelCoefficients, time: float) -> ModelCoefficients:
        """Return `coefficients` with the loads at another time [s]."""
        return (
            replace(coefficients, external_force=self._external_force(coefficients.weight, time))
            if self._time_dependent_loads
            else coefficients
        )

    @cached_property
    def _default_coefficients(self) -> ModelCoefficients:
        return self._coefficients(self.body.fields)

    def _coefficients(self, fields: MaterialFields) -> ModelCoefficients:
        pair_mass = self.body.mass(fields.density)
        mass = self._mass_matrix(pair_mass)
        weight = (mass @ self.gravity.reshape(-1, self.body.dim)).ravel()
        if self.liquids:  # they have inertia; their weight is already the pressure on the walls
            pair_mass = pair_mass + self._liquid_mass
            mass = self._mass_matrix(pair_mass)
        return ModelCoefficients(
            fields=fields,
            mass=mass,
            pair_mass=pair_mass,
            weight=weight,
            external_force=self._external_force(weight, 0.0),
        )

    @cached_property
    def _liquid_mass(self) -> Array:
        """The mass (n_pairs,) [kg] of the liquids at rest, lumped on the diagonal."""
        return self.liquid_pair_mass([liquid.rest_mass for liquid in self.liquids])

    def liquid_pair_mass(self, masses: Sequence[float]) -> Array:
        """Return the mass (n_pairs,) [kg] of each liquid, lumped on the diagonal."""
        i, j = self.body.pairs.T
        parts = zip(masses, self.liquids, strict=True)
        return sum(
            (mass * np.where(i == j, liquid.fractions[i], 0.0) for mass, liquid in parts),
            np.zeros(len(i)),
        )

    def _mass_matrix(self, pair_mass: Array) -> sp.csr_matrix:
        """Return the mass matrix (n_nodes, n_nodes) [kg]."""
        i, j = self.body.pairs.T
        n, off = self.n_dofs // self.body.dim, i != j
        values, rows, cols = (
            np.concatenate([a, b[off]]) for a, b in ((pair_mass, pair_mass), (i, j), (j, i))
        )
        return sp.csr_matrix((values, (rows, cols)), shape=(n, n))

    def _external_force(self, weight: Array, time: float) -> Array:
        return self._constant_load + self._time_dependent_force(time) + weight

    def unit_weight(self, fields: MaterialFields, axis: str) -> Array:
        """Return the weight (n_dofs,) [kg] of the body per unit of gravity along an axis."""
        direction = np.eye(self.dim)["xyz".index(axis)]
        return self.density_mass_times(
            fields.density, np.outer(self.body.is_position, direction).ravel()
        )

    def density_mass_times(self, density: Array, y: Array) -> Array:
        """Return M y for the mass matrix of a density [kg/m^3] in each cell. It serves derivatives,
        so the density may be negative."""
        M = self._mass_matrix(self.body.mass(density))
        return (M @ y.reshape(M.shape[0], -1)).reshape(y.shape)

    @cached_property
    def tangent(self) -> Tangent:
        point_weights = [(term.weights, term.points_per_block) for term, _ in self.potentials] + [
            (dissipation.weights, 1) for dissipation in self.dissipations
        ]
        return Tangent(
            body=self.body, held=self.held, point_weights=point_weights, solver=self.solver
        )

    # Energies and forces

    def mass_times(self, coefficients: ModelCoefficients, y: Array) -> Array:
        """Return M y for a vector or for columns (n_dofs, k)."""
        return (coefficients.mass @ y.reshape(coefficients.mass.shape[0], -1)).reshape(y.shape)

    def external_energy_and_gradient(
        self, coefficients: ModelCoefficients, q: Array, u: Array
    ) -> tuple[float, Array]:
        """Return the energy [J] and gradient [N] of gravity, loads, actuators and contacts."""
        energy, g = self.energy_and_gradient(q, u)
        return energy - float(
            coefficients.external_force @ (q - self.body.rest)
        ), g - coefficients.external_force
