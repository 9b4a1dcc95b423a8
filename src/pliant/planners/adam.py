"""The moments of Adam (Kingma and Ba 2015), for planners and for the training of controllers."""

from dataclasses import dataclass

import numpy as np

from pliant.core import Array

MEAN_DECAY = 0.9  # the value of the paper
# The paper's 0.999 suits noisy gradients. These are exact, and 100 iterations of memory follow
# their size sooner.
SQUARE_DECAY = 0.99


@dataclass(frozen=True, kw_only=True, eq=False)
class AdamMoments:
    """Running means of a gradient and of its squares."""

    mean: Array  # of the shape of the gradient
    square: Array  # of the same shape
    count: int = 0  # number of gradients

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> "AdamMoments":
        """Return the moments before the first gradient."""
        return cls(mean=np.zeros(shape), square=np.zeros(shape))

    def updated(self, gradient: Array) -> "AdamMoments":
        """Return the moments after one more gradient."""
        return AdamMoments(
            mean=MEAN_DECAY * self.mean + (1.0 - MEAN_DECAY) * gradient,
            square=SQUARE_DECAY * self.square + (1.0 - SQUARE_DECAY) * gradient * gradient,
            count=self.count + 1,
        )

    def cleared(self) -> "AdamMoments":
        """Return the moments before the first gradient, of the same shape."""
        return AdamMoments.zero(self.mean.shape)

    @property
    def direction(self) -> Array:
        """The mean gradient, without the bias of the zero start."""
        return self.mean / (1.0 - MEAN_DECAY**self.count)

    @property
    def size(self) -> Array:
        """The root mean square of the gradient, without the bias of the zero start."""
        return np.sqrt(self.square / (1.0 - SQUARE_DECAY**self.count))

    @property
    def change(self) -> Array:
        """The direction of ascent with entries of about 1. Variables without any influence stay
        where they are."""
        return self.direction / (self.size + (1e-8 * float(self.size.max(initial=0.0)) or 1.0))
