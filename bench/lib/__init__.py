"""Shared by the benchmarks. Python 3.11, standard library only."""
