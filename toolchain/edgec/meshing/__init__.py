"""A program for several devices to a folder that runs on them."""

from edgec.meshing.making import CompiledMesh, compile_mesh

__all__ = ["CompiledMesh", "compile_mesh"]
