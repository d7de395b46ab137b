"""How governor is run: its image, and what watches it."""
