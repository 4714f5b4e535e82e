"""Campaigns of attacks that anyone can run: each prints its seed, what it did and what broke.

The small version of each is a test (test_campaigns.py); `make attack` runs them in full.
"""
