"""What the kernels of all GPUs share; imported when they are placed."""
