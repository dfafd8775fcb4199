"""What packages add to an app: runtime and model, in bytes."""
