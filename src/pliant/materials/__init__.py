"""Materials, each written once for every body."""

from pliant.materials.elastic import LAWS, Material, from_moduli, moduli, moduli_slope

__all__ = ["LAWS", "Material", "from_moduli", "moduli", "moduli_slope"]
