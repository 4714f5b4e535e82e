"""Training trials: does a small model that is trained on one part of a dataset retrieve better than on another part?"""
