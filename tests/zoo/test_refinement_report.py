"""The picture of an adaptive grid shows its cells, the new corners of each level and the path."""

from types import SimpleNamespace

import numpy as np

from pliant.report.figures import plot_svg
from pliant.surrogate import Corners, Grid
from pliant.zoo.refinement_report import grid_plot


def bowl(x, near=None):
    return np.array([x @ x]), 2.0 * x[None]


def refined_on(grid, path):
    """Return what `grid_plot` uses of a refined plan: two levels that follow a path (k, d)."""
    levels = []
    for one in (grid, grid.refined()):
        for x in path:
            one(x)
        model = SimpleNamespace(surrogate=one, query_point=lambda x: x)
        result = SimpleNamespace(states=path)
        levels.append(SimpleNamespace(model=model, cell=one.size.max(), result=result))
    return SimpleNamespace(levels=levels, plan=levels[-1].result)


def test_grid_plot_shows_cells_new_corners_and_path():
    path = np.array([[0.1, 0.1], [0.3, 0.2], [0.9, 0.4]])
    grid = Grid(Corners(bowl, dim=2), cell=1.0, origin=0.0)
    plot = grid_plot(refined_on(grid, path), "Fig. 3", ["a [N]", "b [N]"])
    np.testing.assert_array_equal(np.array(plot.series["planned path"]).T, path)
    coarse, fine = (set(zip(*plot.series[name], strict=True)) for name in plot.markers)
    assert coarse == {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)}
    assert fine == {(0.5, 0.0), (0.0, 0.5), (0.5, 0.5), (1.0, 0.5)}
    edges = np.array(plot.series["cells"]).T
    assert np.isnan(edges[:, 0]).sum() == 3  # one large cell and two small ones
    assert plot.thin == ("cells",)
    assert plot_svg(plot).startswith(b"<?xml")


def test_grid_plot_projects_more_axes_and_needs_two():
    path = np.array([[0.1, 0.1, 0.2], [0.3, 0.2, 0.9]])
    grid = Grid(Corners(bowl, dim=3), cell=1.0, origin=0.0)
    plot = grid_plot(refined_on(grid, path), "Fig. 3", ["a", "b", "c"], axes=(0, 2))
    assert (plot.x, plot.y) == ("a", "c")
    np.testing.assert_array_equal(np.array(plot.series["planned path"]).T, path[:, [0, 2]])
    coarse = set(zip(*plot.series[plot.markers[0]], strict=True))
    assert coarse == {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)}
    line = Grid(Corners(bowl, dim=1), cell=1.0, origin=0.0)
    assert grid_plot(refined_on(line, path[:, :1]), "Fig. 3", ["a"]) is None
