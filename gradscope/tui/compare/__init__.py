"""The compare screen's parts: reading, numbers, bars, curves."""
