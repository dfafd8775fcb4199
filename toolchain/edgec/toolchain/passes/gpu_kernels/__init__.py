"""What the passes with kernels of edgec's own for GPUs share; imported when they run."""
