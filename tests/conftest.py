"""Shared fixtures: random numbers, convergence rates, dense body matrices and checks of error
messages."""

import re

import numpy as np
import pytest

from pliant.core import PliantError


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def rate():
    """Return rate(sizes, errors), the order p of errors ~ sizes^p by a least-squares fit of the
    logarithms."""
    return lambda sizes, errors: float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@pytest.fixture
def taylor(rate):
    """Return taylor(f, slope), the order in e of the remainder |f(e) - f(0) - e slope|.

    The order is 2 if `slope` is the derivative of a nonlinear function."""
    sizes = 1e-2 * 0.5 ** np.arange(5)

    def order(f, slope):
        start = np.asarray(f(0.0))
        return rate(
            sizes, [np.linalg.norm(np.asarray(f(e)) - start - e * np.asarray(slope)) for e in sizes]
        )

    return order


@pytest.fixture
def dense():
    """Return dense(body, blocks), the symmetric (n_dofs, n_dofs) matrix of the node-pair blocks."""

    def full(body, blocks):
        n, dim = body.rest.size // body.dim, body.dim
        K = np.zeros((n, dim, n, dim))
        for (i, j), B in zip(body.pairs, blocks, strict=True):
            K[i, :, j] += B
            if i != j:
                K[j, :, i] += B.T
        return K.reshape(n * dim, n * dim)

    return full


@pytest.fixture
def raises_clear_error():
    """Return raises_clear_error(make, pattern), which asserts that `make()` raises a PliantError.

    The message is one line that matches the pattern."""

    def check(make, pattern):
        with pytest.raises(PliantError) as caught:
            make()
        text = str(caught.value)
        assert re.search(pattern, text), text
        assert re.fullmatch(r"[^\n\r\0]{10,2000}[.?)]", text), text
        assert "Traceback" not in text

    return check


@pytest.fixture
def write_file(tmp_path):
    """Return write_file(content), which writes text or bytes to a file and returns its path."""

    def write(content):
        path = tmp_path / "given.dat"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
