"""VCS and VCS_short as scorers."""
