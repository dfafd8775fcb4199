"""Kernels that edgec writes itself, a folder for each kind of device."""
