"""The papers' tables, published figures beside ours: `make papers`, or `python -m benchmarks.papers`.

Every table is a `Recipe`: the data and packages it needs, everything its figures follow from, and a function that makes
its rows. Finished tables and long stages are kept under build/papers, so a run that was stopped goes on where it was.
"""
