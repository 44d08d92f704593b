"""What a run's records say: values, never text."""
