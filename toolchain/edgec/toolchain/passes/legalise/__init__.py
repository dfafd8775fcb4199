"""What iree-compile refuses or gets wrong, written in another way."""
