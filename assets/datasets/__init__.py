"""Datasets: looked up by name, held while they are worked on, and watched for changes."""
