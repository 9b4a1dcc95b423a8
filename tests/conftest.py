"""What the tests share: random numbers, convergence rates, the dense form of a body's blocks, and
sentences about bad input."""

import re

import numpy as np
import pytest

from pliant.core import PliantError


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def rate():
    """rate(sizes, errors): the order p of errors ~ sizes^p, by least squares in logarithms."""
    return lambda sizes, errors: float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@pytest.fixture
def taylor(rate):
    """taylor(f, J d, d): how fast |f(e d) - f(0) - e J d| falls; 2 for a right derivative of a
    curved function."""
    sizes = 1e-2 * 0.5 ** np.arange(5)

    def order(f, slope):
        start = np.asarray(f(0.0))
        return rate(
            sizes, [np.linalg.norm(np.asarray(f(e)) - start - e * np.asarray(slope)) for e in sizes]
        )

    return order


@pytest.fixture
def dense():
    """dense(body, blocks): the symmetric (n_dofs, n_dofs) matrix of a body's node-pair blocks."""

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
def one_sentence():
    """one_sentence(make, says): `make()` is refused in one sentence that says so."""

    def check(make, says):
        with pytest.raises(PliantError) as caught:
            make()
        text = str(caught.value)
        assert re.search(says, text), text
        assert re.fullmatch(r"[^\n\r\0]{10,2000}[.?)]", text), text
        assert "Traceback" not in text

    return check


@pytest.fixture
def given(tmp_path):
    """given(content): a file of some text or bytes."""

    def write(content):
        path = tmp_path / "given.dat"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
