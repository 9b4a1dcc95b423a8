"""Peers of the benchmarks, which solve the same cases. Only `pliant bench` imports them."""
