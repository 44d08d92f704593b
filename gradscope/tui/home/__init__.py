"""What the home screen and the form of a preset are made of: reading, drawing, launching. The screens use it."""
