"""TensorFlow models to programs."""
