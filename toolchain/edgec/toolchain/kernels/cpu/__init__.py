"""All of the CPU's kernels: their source as text, and how they are placed."""
