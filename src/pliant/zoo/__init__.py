"""The zoo: ready robots and named experiments."""
