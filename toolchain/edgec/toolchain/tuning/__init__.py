"""A program on its device, compiled in many ways, to the settings that make it fastest there."""
