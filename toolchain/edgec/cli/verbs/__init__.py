"""One file a verb: a function from the command line's values to a `Report`."""
