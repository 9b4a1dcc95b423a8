"""A task refuses bad arguments when it is made, not when it is first used."""

import pytest
from point import go_there

import pliant as pl
from pliant.learning import ControlTask

TERMS = {
    "text": "ab",
    "nothing": [],
    "number": 3,
    "list of text": ["ab"],
    "one term": pl.Goal(effector="tip", target=(1.0,)),
}
SPREADS = {
    "number": (3, "The spread of a task"),
    "negative": ({"position": -0.1}, "between 0 and"),
    "infinite": ({"position": float("inf")}, "between 0 and"),
    "not a number": ({"position": float("nan")}, "between 0 and"),
    "absurd": ({"position": 1e300}, "between 0 and"),
    "text": ({"position": "wide"}, "must be a number"),
}


@pytest.mark.parametrize("name", TERMS)
def test_bad_terms_are_refused(name, raises_clear_error):
    raises_clear_error(lambda: ControlTask(steps=5, terms=TERMS[name]), "terms of a task")


@pytest.mark.parametrize("name", SPREADS)
def test_bad_spread_is_refused(name, raises_clear_error):
    spread, pattern = SPREADS[name]
    raises_clear_error(lambda: go_there(spread=spread), pattern)
