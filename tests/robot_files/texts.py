"""Sections of robot files that several tests use."""

MATERIAL = "[material]\nE = 1e5\nnu = 0.4\n"
BOX = (
    '[geometry]\nshape = "box"\nsize = [0.1, 0.02, 0.02]\ndivisions = [4, 1, 1]\norder = 1\n'
    + MATERIAL
)
