"""One way to read, walk, fold, view, write and erase StableHLO; imported by what runs."""
