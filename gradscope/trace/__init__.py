"""PyTorch Chrome traces, read and repaired."""
