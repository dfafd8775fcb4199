"""A program for several devices: its parts on each of them, and what they say to each other."""
