"""The run directory: the only package that knows its file names, and how each is written and read."""
