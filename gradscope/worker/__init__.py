"""The process that has torch: it trains, measures and profiles, and appends to the run's events."""
