"""Charts as pure functions: values and a size in, rows of styled text out. Nothing here knows textual."""
