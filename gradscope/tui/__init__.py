"""The app: choose a run, launch it, watch it, understand it, compare it. The only package that imports textual."""
