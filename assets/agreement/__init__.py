"""Metrics against people, per dataset."""
