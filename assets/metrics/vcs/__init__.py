"""The scorers of VCS and VCS_short, with their settings and explanations."""
