"""Kernels that the user wrote: from the program's composites to dispatches of their code."""
