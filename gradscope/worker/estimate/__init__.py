"""Memory of an update foretold: the loop's own update, traced on tensors without data. A process of its own."""
