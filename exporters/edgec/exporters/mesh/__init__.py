"""A program with shardings to a program of each device: by Shardy, cut at its collectives."""
