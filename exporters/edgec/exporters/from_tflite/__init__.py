"""TensorFlow Lite models to programs."""
