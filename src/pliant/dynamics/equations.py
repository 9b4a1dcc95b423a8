"""A robot's equations of motion: energies, forces and tangents of body, attachments and contacts on
its free unknowns."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from pliant.actuators import AttachedLiquid, liquid_of
from pliant.actuators.hydraulic import check_one_fluid_each
from pliant.bodies import Body, Drag, Fields, Term
from pliant.contact import Friction
from pliant.core import Array, InputError, Params, finite_array, nearest, require_kind
from pliant.dynamics.attachments import Attachments, of_actuators
from pliant.dynamics.design import Design
from pliant.dynamics.tangent import Tangent
from pliant.robot import Load, Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """What the parameters decide: the fields of each cell and the mass of each node pair."""

    fields: Fields
    mass: sp.csr_matrix  # (n_nodes, n_nodes) [kg] of the body and of the liquids in it
    pair_mass: Array  # (n_pairs,) [kg]
    weight: Array  # (n_dofs,) [N] gravity on the body without its liquids
    outside: Array  # (n_dofs,) [N] gravity, and the loads at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Equations(Attachments):
    """Everything of a robot that does not depend on the stepping rule. All vectors are (n_dofs,)
    unless said otherwise."""

    robot: Robot
    design: Sequence[str] = ()  # active parameters: "soft.E", "body.nu", "cells.density", ...
    solver: str | None = None

    def __post_init__(self) -> None:
        require_kind("The robot", self.robot, Robot, "make one with pliant.Robot(...)")
        for part in ("variables", "terms", "held", "gravity", "_default_numbers", "tangent"):
            getattr(self, part)  # what is wrong with them is a sentence now, not at the first step
        for name in self.robot.effectors:
            self.robot.row(name)

    @cached_property
    def body(self) -> Body:
        return self.robot.body()

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.body.dim

    @cached_property
    def n_dofs(self) -> int:  # type: ignore[override]
        return self.body.rest.size

    # Attachments

    @cached_property
    def terms(self) -> tuple[tuple[Term, slice], ...]:  # type: ignore[override]
        """Each attachment with its share of the controls: actuators first, then contacts and the
        weight of liquids."""
        made = of_actuators(self.robot, lambda actuator: actuator.on(self.body))
        check_one_fluid_each(self.robot.actuators, self.body)
        self._warn_about_idle_actuators(made)
        end = slice(self.robot.n_controls, self.robot.n_controls)
        return (*made, *((passive, end) for passive in (*self._contacts, *self._liquids)))

    def _warn_about_idle_actuators(self, made: list[tuple[Term, slice]]) -> None:
        """Warn of actuators that move nothing, because supports hold all that they act on."""
        held = np.all(self.held.reshape(-1, self.dim), axis=1)
        for name, (term, part) in zip(self.robot.actuators, made, strict=True):
            if part.stop > part.start and held[np.unique(term.weights.indices)].all():
                warnings.warn(
                    f"Actuator '{name}' of {self.robot.name} acts only on nodes that supports "
                    "hold, so it moves nothing; lead it through free parts of the body.",
                    stacklevel=2,
                )

    @cached_property
    def _contacts(self) -> tuple:
        return tuple(contact.on(self.body) for contact in self.robot.contacts)

    @cached_property
    def _liquids(self) -> tuple[AttachedLiquid, ...]:
        """What fills the cavities of hydraulic actuators; gravity is the robot's, so they ask for
        it here."""
        made = of_actuators(
            self.robot, lambda actuator: liquid_of(actuator, self.body, self.robot.gravity)
        )
        return tuple(liquid for liquid, _ in made if liquid is not None)

    @cached_property
    def drags(self) -> tuple[Drag, ...]:
        return tuple(
            Friction(contact=contact)
            for contact in self._contacts
            if contact.contact.friction > 0.0
        )

    @cached_property
    def _steady_load(self) -> Array:
        return sum(
            (load.on(self.body) for load in self.robot.loads if not load.timed),
            np.zeros(self.n_dofs),
        )

    @cached_property
    def _changing(self) -> tuple[tuple[Load, Array], ...]:
        """The loads that change in time, each with its forces (n_dofs, n) of one unit."""
        return tuple((load, load.columns(self.body)) for load in self.robot.loads if load.timed)

    def _changing_load(self, time: float) -> Array:
        parts = (columns @ load.value(self.dim, time) for load, columns in self._changing)
        return sum(parts, np.zeros(self.n_dofs))

    @cached_property
    def gravity(self) -> Array:
        """(n_dofs,) [m/s^2] the acceleration of gravity at every place, zero at turns."""
        dim = self.body.dim
        g = (
            np.zeros(dim)
            if self.robot.gravity is None
            else finite_array("Gravity", self.robot.gravity, (dim,), "m/s^2")
        )
        return np.outer(self.body.is_place, g).ravel()

    def effector_rows(self, name: str) -> sp.csr_matrix:
        """(dim, n_dofs) an effector's place from the positions."""
        return sp.kron(self.robot.row(name), sp.identity(self.body.dim), format="csr")

    def attached(self, name: str) -> tuple[Term, sp.csr_matrix]:
        """(an actuator on the body, (n_points dim, n_dofs) the rows of the points that it looks
        at), by its name."""
        if name not in self.robot.actuators:
            raise InputError(
                f"{self.robot.name} has no actuator '{name}'; {nearest(name, self.robot.actuators)}"
            )
        term = self.terms[list(self.robot.actuators).index(name)][0]
        return term, sp.kron(term.weights, sp.identity(self.dim), format="csr")

    # Supports

    @cached_property
    def held(self) -> Array:
        """(n_dofs,) bool, the unknowns that supports decide."""
        held = np.zeros(self.n_dofs, bool)
        for dofs, _ in self._supports:
            held[dofs] = True
        return held

    @cached_property
    def free(self) -> Array:
        return np.flatnonzero(~self.held)

    @cached_property
    def _supports(self) -> list:
        out = []
        for support in self.robot.supports:
            axes = [axis for axis in range(self.body.dim) if "xyz"[axis] in support.axes]
            nodes = support.nodes_of(self.body)
            if not axes or not len(nodes):
                raise InputError(
                    f"The support on {support.label} along '{support.axes}' holds nothing of "
                    f"a body in {self.body.dim} dimensions; name other axes or another region."
                )
            out.append(
                ((nodes[:, None] * self.body.dim + np.array(axes)).ravel(), (support.motion, axes))
            )
        return out

    @cached_property
    def _held_twice(self) -> bool:
        """Whether two supports with different motions share unknowns."""
        pairs = combinations(self._supports, 2)
        return any(a[1][0] is not b[1][0] and np.intersect1d(a[0], b[0]).size for a, b in pairs)

    def _check_held_twice(self, placed: list[tuple[Array, Array]], time: float) -> None:
        """Raise InputError if supports hold an unknown at different places; `placed` has the
        unknowns (k,) and positions (k,) [m] of each support."""
        for (i, (a, x)), (j, (b, y)) in combinations(enumerate(placed), 2):
            _, at_a, at_b = np.intersect1d(a, b, return_indices=True)
            # Two formulas of the same motion agree to some thousand roundings of the position [m].
            rounding = 4e3 * np.finfo(float).eps * np.maximum(1.0, np.abs(x[at_a]))
            apart = np.abs(x[at_a] - y[at_b])
            if (differs := apart > rounding).any():
                first, second = (self.robot.supports[k].label for k in (i, j))
                raise InputError(
                    f"The supports on {first} and on {second} hold {np.sum(differs)} common "
                    f"unknowns of {self.robot.name} up to {apart.max():.3g} m apart at t = "
                    f"{time:g} s; give both the same motion, or regions without common nodes."
                )

    def place_supports(self, q: Array, time: float) -> Array:
        """A copy of q with every held unknown where its support has it at a time [s]."""
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
                self.body.is_place[dofs[:: len(axes)] // dim], move[axes]
            ).ravel()  # a motion moves places and turns nothing
            q[dofs] = self.body.rest[dofs] + shift
            placed.append((dofs, q[dofs]))
        if self._held_twice:
            self._check_held_twice(placed, time)
        return q

    def free_rigid_motions(self) -> list[str]:
        """The rigid motions that no support hinders, in words."""
        dim, x, is_place = self.dim, self.body.rest.reshape(-1, self.body.dim), self.body.is_place
        held = self.held.reshape(x.shape).any(axis=1) & is_place
        middle = x[held].mean(axis=0) if held.any() else x[is_place].mean(axis=0)
        planes = [(1, 2), (2, 0), (0, 1)] if dim == 3 else [(0, 1)]
        names = [f"translation along {'xyz'[a]}" for a in range(dim)]
        names += (
            [f"rotation about {'xyz'[a]}" for a in range(3)]
            if dim == 3
            else ["rotation in the plane"]
        )
        modes = [np.outer(is_place, np.eye(dim)[a]) for a in range(dim)]
        for axis, (i, j) in enumerate(planes):
            turn = np.zeros_like(x)
            turn[:, i], turn[:, j] = -(x - middle)[:, j], (x - middle)[:, i]
            turn[~is_place] = np.eye(3)[axis, :dim]
            modes.append(turn)
        basis = np.stack(
            [
                mode.ravel() / np.linalg.norm(mode) if np.any(mode) else mode.ravel()
                for mode in modes
            ],
            axis=1,
        )
        neutral = self.robot.neutral_controls()
        answer = lambda mode: self.terms_times(self.body.rest, neutral, mode, stiff_only=True)
        springs, shaken = (
            [answer(mode) for mode in basis.T],
            np.random.default_rng(0).standard_normal(self.n_dofs),
        )
        # Of a shake, too: a fluid of a given volume answers that, but rigid motions with round-off
        # alone, which holds nothing.
        stiff = np.stack(springs, axis=1) / max(
            1e-300,
            *(float(np.linalg.norm(f)) for f in (*springs, answer(shaken / self.n_dofs**0.5))),
        )
        rows = np.vstack([basis[self.held], stiff, np.zeros((len(names), len(names)))])
        _, s, vt = np.linalg.svd(rows, full_matrices=False)
        loose = vt[s < 1e-9 * max(1.0, s.max(initial=0.0))]
        return [
            names[k]
            for k in range(len(names))
            if loose.size and np.abs(loose[:, k]).max() > 1e-6 and np.any(modes[k])
        ]

    # Parameters

    @cached_property
    def variables(self) -> Design:
        return Design(body=self.body, names=self.design)

    @property
    def params(self) -> Params:
        return self.variables.params

    def numbers(self, p: Array | None, time: float = 0.0) -> Numbers:
        """The fields and masses for a parameter vector (None: as described), with the loads at a
        time [s]: that of a step's end."""
        fields = self.variables.fields(p)
        return self.at_time(
            self._default_numbers if fields is self.body.fields else self._numbers(fields), time
        )

    def at_time(self, numbers: Numbers, time: float) -> Numbers:
        """`numbers` with the loads at another time [s]."""
        return (
            replace(numbers, outside=self._outside(numbers.weight, time))
            if self._changing
            else numbers
        )

    @cached_property
    def _default_numbers(self) -> Numbers:
        return self._numbers(self.body.fields)

    def _numbers(self, fields: Fields) -> Numbers:
        pair_mass = self.body.mass(fields.density)
        mass = self._mass_matrix(pair_mass)
        weight = (mass @ self.gravity.reshape(-1, self.body.dim)).ravel()
        if self._liquids:  # they move, but their weight is that of the pressure on their walls
            pair_mass = pair_mass + self._liquid_mass
            mass = self._mass_matrix(pair_mass)
        return Numbers(
            fields=fields,
            mass=mass,
            pair_mass=pair_mass,
            weight=weight,
            outside=self._outside(weight, 0.0),
        )

    @cached_property
    def _liquid_mass(self) -> Array:
        """(n_pairs,) [kg] of the liquids, all of it on the diagonal."""
        (i, j), mass = self.body.pairs.T, np.sum([liquid.mass for liquid in self._liquids], axis=0)
        return np.where(i == j, mass[i], 0.0)

    def _mass_matrix(self, pair_mass: Array) -> sp.csr_matrix:
        """(n_nodes, n_nodes) [kg]"""
        i, j = self.body.pairs.T
        n, off = self.n_dofs // self.body.dim, i != j
        values, rows, cols = (
            np.concatenate([a, b[off]]) for a, b in ((pair_mass, pair_mass), (i, j), (j, i))
        )
        return sp.csr_matrix((values, (rows, cols)), shape=(n, n))

    def _outside(self, weight: Array, time: float) -> Array:
        return self._steady_load + self._changing_load(time) + weight

    def mass_of(self, density: Array, y: Array) -> Array:
        """The body's mass matrix for a density [kg/m^3] in each cell, times y; for derivatives, so
        the density may have any sign."""
        M = self._mass_matrix(self.body.mass(density))
        return (M @ y.reshape(M.shape[0], -1)).reshape(y.shape)

    @cached_property
    def tangent(self) -> Tangent:
        looks = [(term.weights, term.group) for term, _ in self.terms] + [
            (drag.weights, 1) for drag in self.drags
        ]
        return Tangent(body=self.body, held=self.held, looks=looks, solver=self.solver)

    # Energies and forces

    def mass_times(self, numbers: Numbers, y: Array) -> Array:
        """M y for a vector or for columns (n_dofs, k)."""
        return (numbers.mass @ y.reshape(numbers.mass.shape[0], -1)).reshape(y.shape)

    def given(self, numbers: Numbers, q: Array, u: Array) -> tuple[float, Array]:
        """Energy [J] and gradient [N] of all that is not the body's own: gravity, loads, actuators
        and contacts."""
        energy, g = self.pull(q, u)
        return energy - float(numbers.outside @ (q - self.body.rest)), g - numbers.outside
