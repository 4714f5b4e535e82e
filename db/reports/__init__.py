"""Queries behind a dataset's report, its agreement with people, and the pages of `reelsieve look`."""
