"""One experiment a file; `pliant.zoo.registry` enrols them."""
