"""What the benchmarks share. Python 3.11, standard library only."""
