"""Training of the demo encoder on the demo world, and what it was measured to do."""
