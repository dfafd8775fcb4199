"""JAX models to programs."""
