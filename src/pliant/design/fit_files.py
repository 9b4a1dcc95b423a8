"""The files of a fit: fit.json and arrays."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pliant.core import Array, Status, finite_array
from pliant.design.estimates import Estimate, Estimates
from pliant.design.residuals import Prediction
from pliant.optimisation.result import plain_row, read_row
from pliant.store.array_checkpoints import CheckpointKind

if TYPE_CHECKING:
    from pliant.design.fit import Fit

FIT = CheckpointKind(noun="fit", writer="identify(...)", again="identify again")
GROUPS = ("predictions", "held_out")
ESTIMATE_ARRAYS = ("start", "value", "deviation", "interval", "iterates")
PREDICTION_ARRAYS = ("measured", "predicted", "axis", "scale")


def fit_content(fit: "Fit") -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the JSON content and the arrays of a fit."""
    found = fit.estimates
    arrays = {"params": fit.params}
    if found.correlation is not None:
        arrays["correlation"] = found.correlation
    for k, one in enumerate(found.items):
        arrays |= {f"estimate{k}.{name}": getattr(one, name) for name in ESTIMATE_ARRAYS}
    for group in GROUPS:
        for k, part in enumerate(getattr(fit, group)):
            arrays |= {f"{group}{k}.{name}": getattr(part, name) for name in PREDICTION_ARRAYS}
    content = {
        "method": fit.method,
        "settings": dict(fit.settings),
        "seed": fit.seed,
        "identity": dict(fit.identity),
        "ok": fit.status.ok,
        "status": fit.status.text,
        "interrupted": fit.interrupted,
        "notes": list(fit.notes),
        "undetermined": list(found.undetermined),
        "noise": found.noise,
        "history": [plain_row(row) for row in fit.history],
        "estimates": [
            {"name": one.name, "unit": one.unit, "log": one.log, "at_bound": one.at_bound}
            for one in found.items
        ],
        **{group: [_plain_prediction(part) for part in getattr(fit, group)] for group in GROUPS},
    }
    return content, arrays


def _plain_prediction(part: Prediction) -> dict[str, Any]:
    return {
        "name": part.name,
        "axis_label": part.axis_label,
        "markers": list(part.markers),
        "unit": part.unit,
    }


def fit_fields(
    content: Mapping[str, Any], arrays: Mapping[str, Array], where: str
) -> dict[str, Any]:
    """Return the fields of a saved fit. Raises an error of Python for damaged content."""
    history = tuple(read_row(row) for row in content["history"])
    if not history:
        raise ValueError("history")
    identity, settings = content["identity"], content["settings"]
    _ = identity["robot"], identity["params"], dict(settings)
    if not isinstance(identity["digest"], str | None):
        raise TypeError("digest")
    return {
        "method": str(content["method"]),
        "settings": settings,
        "seed": int(content["seed"]),
        "interrupted": content["interrupted"] is True,
        "identity": identity,
        "params": finite_array(f"'params' in {where}", arrays["params"], (None,)),
        "status": Status(
            ok=content["ok"] is True, text=str(content["status"]), iterations=len(history) - 1
        ),
        "notes": tuple(str(note) for note in content["notes"]),
        "history": history,
        "estimates": _estimates(content, arrays),
        **{
            group: tuple(
                _prediction(
                    part, {name: arrays[f"{group}{k}.{name}"] for name in PREDICTION_ARRAYS}
                )
                for k, part in enumerate(content[group])
            )
            for group in GROUPS
        },
    }


def _estimates(content: Mapping[str, Any], arrays: Mapping[str, Array]) -> Estimates:
    items = []
    for k, one in enumerate(content["estimates"]):
        parts: dict[str, Any] = {
            name: np.array(arrays[f"estimate{k}.{name}"], float) for name in ESTIMATE_ARRAYS
        }
        size = parts["value"].size
        several = {"interval": (size, 2), "iterates": (len(parts["iterates"]), size)}
        _check_shapes(parts, {**dict.fromkeys(ESTIMATE_ARRAYS, (size,)), **several})
        parts |= {name: one[name] is True for name in ("log", "at_bound")}
        items.append(Estimate(name=str(one["name"]), unit=str(one["unit"]), **parts))
    noise, n = content["noise"], sum(one.value.size for one in items)
    correlation = arrays.get("correlation")
    if correlation is not None:
        _check_shapes({"correlation": correlation}, {"correlation": (n, n)})
    return Estimates(
        items=tuple(items),
        correlation=correlation,
        undetermined=tuple(str(sentence) for sentence in content["undetermined"]),
        noise=None if noise is None else float(noise),
    )


def _prediction(part: Mapping[str, Any], arrays: Mapping[str, Array]) -> Prediction:
    shape, markers = arrays["measured"].shape, tuple(str(name) for name in part["markers"])
    _check_shapes(
        arrays,
        {
            "measured": (len(arrays["axis"]), len(markers), shape[2]),
            "predicted": shape,
            "axis": shape[:1],
            "scale": shape[1:2],
        },
    )
    return Prediction(
        name=str(part["name"]),
        axis_label=str(part["axis_label"]),
        markers=markers,
        unit=str(part["unit"]),
        **{name: np.array(array, float) for name, array in arrays.items()},
    )


def _check_shapes(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless arrays have these shapes."""
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(name)
