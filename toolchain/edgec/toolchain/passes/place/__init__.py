"""Passes that put edgec's own kernels into a program."""
