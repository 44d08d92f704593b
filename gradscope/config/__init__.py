"""Presets: their schema, where they come from, and how they are checked and overridden."""
