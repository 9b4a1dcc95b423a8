"""The docstring of every public name has an example, and the example runs."""

import doctest
import inspect
from typing import Any

import pytest

from pliant import public


def examples(name: str) -> doctest.DocTest:
    """Return the examples in the docstring of a public name."""
    thing: Any = getattr(public, name)
    return doctest.DocTestParser().get_doctest(
        inspect.getdoc(thing) or "", {}, name, inspect.getsourcefile(thing), 0
    )


@pytest.mark.parametrize("name", public.__all__)
def test_docstring_example_runs(name: str) -> None:
    test = examples(name)
    assert test.examples, f"the docstring of pliant.{name} has no >>> example"
    report: list[str] = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)
