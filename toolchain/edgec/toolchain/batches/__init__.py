"""Whether a program computes examples of a batch each by itself, and a loop over parts of it."""
