"""The web interface: Dagster's own, with a guard in front of it that other pages of ours share."""
