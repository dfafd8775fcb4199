"""edgec.targets."""
