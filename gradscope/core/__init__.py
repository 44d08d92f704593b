"""Plain data and pure functions: events, samples, statistics, units, clocks. Imports nothing heavy."""
