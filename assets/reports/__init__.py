"""The HTML report of a dataset: what it concludes, its figures and its page."""
