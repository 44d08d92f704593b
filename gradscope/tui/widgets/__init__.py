"""What screens are made of: plots in tiles, meters, tables over foreign text."""
