"""Samples of the GPU (NVML) and the host, taken beside the training process on a drift-free clock."""
