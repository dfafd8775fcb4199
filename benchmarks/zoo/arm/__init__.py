"""Instructions that a call takes on 64-bit Arm, beside the peers' own builds for it."""
