"""The examples in the docstrings of pliant.learning run."""

import doctest

import pytest

from pliant import learning


@pytest.mark.parametrize("name", ["", *learning.__all__])
def test_docstring_example_runs(name):
    thing = getattr(learning, name) if name else learning
    test = doctest.DocTestParser().get_doctest(thing.__doc__ or "", {}, name, None, 0)
    report = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)
