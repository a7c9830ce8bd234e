"""Fuzzers: mutated files of every kind, solvers and fits against slow twins; see run.py."""
