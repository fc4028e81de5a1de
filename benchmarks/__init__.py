"""Benchmarks: every figure is a ratio taken in one run, after the results were found to agree."""
