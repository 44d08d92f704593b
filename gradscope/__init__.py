"""gradscope: where a PyTorch training step's memory and time go, in the terminal."""

__version__ = "0.1.0"
