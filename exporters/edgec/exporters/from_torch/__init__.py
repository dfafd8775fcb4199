"""PyTorch models to programs."""
