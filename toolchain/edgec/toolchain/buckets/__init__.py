"""Programs of an open size as programs of fixed sizes, to which their inputs are filled up."""
