"""Facts about videos and texts, measured without a model except for text on screen and speech. They describe: a higher
number is not better.
"""
