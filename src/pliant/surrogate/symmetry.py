"""Maps that are known at -x if they are known at x, up to signs."""

from dataclasses import dataclass, replace

import numpy as np

from pliant.core import Array, InputError, finite_array
from pliant.surrogate.sample import Sample


@dataclass(frozen=True, kw_only=True, eq=False)
class SignSymmetry:
    """The symmetry f(s x) = S f(x) of a map, with signs s of its inputs and S of its outputs.

    The image of a sample costs nothing, so half of the exact evaluations are saved. Raises
    `InputError` unless all entries are 1 or -1.

    >>> import numpy as np
    >>> from pliant.surrogate import SignSymmetry
    >>> odd = SignSymmetry(inputs=np.array([-1.0]), outputs=np.array([-1.0]))
    >>> float(odd.image(np.array([0.3]))[0])
    -0.3
    """

    inputs: Array  # (d,)
    outputs: Array  # (N,)

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            signs = finite_array(f"The signs of the {name}", getattr(self, name), (None,))
            if not np.all(np.abs(signs) == 1.0):
                raise InputError(f"The signs of the {name} are {signs}; each must be 1 or -1.")
            object.__setattr__(self, name, signs)

    def image(self, x: Array) -> Array:
        """Return the image (d,) of a point."""
        return self.inputs * x + 0.0  # without -0.0

    def representative(self, x: Array) -> Array:
        """Return x or its image, the same for both: the one that is lexicographically larger."""
        other = self.image(x)
        different = np.flatnonzero(other != x)
        return x if not different.size or x[different[0]] > other[different[0]] else other

    def image_of_sample(self, sample: Sample) -> Sample:
        """Return the sample at the image of its point."""
        point = self.image(sample.point)
        if sample.failed:
            return replace(sample, point=point)
        slope = self.outputs[:, None] * sample.slope * self.inputs
        return replace(sample, point=point, value=self.outputs * sample.value, slope=slope)
