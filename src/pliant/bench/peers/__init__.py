"""Other libraries that solve the problems of the benchmarks. Only `pliant bench` imports them."""
