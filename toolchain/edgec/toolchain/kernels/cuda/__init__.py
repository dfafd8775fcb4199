"""All of CUDA's kernels: their source, their cost, and how they are placed."""
