"""The parts of the screen that lists all runs."""
