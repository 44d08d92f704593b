"""What the sweep screen is made of."""
