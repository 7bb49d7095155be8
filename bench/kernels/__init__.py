"""Kernels beside the peers' best, the limits of the machine, and the same loops in C; `__main__.py` says how to run it."""
