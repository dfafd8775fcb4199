"""edgec as a device of frameworks: they run their own programs on what edgec compiles."""
