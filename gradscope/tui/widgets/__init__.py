"""What screens are made of: plots in tiles, lists, rows and tables over foreign text."""
