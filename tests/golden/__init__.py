"""Golden cases of the project's own making: own texts, seeded numbers, and results by plain second implementations.

`python -m tests.golden.make` writes the JSON files beside this module. Run it when a case is added, or when a metric's
rule changes and its plain implementation with it; never because a test fails.
"""
