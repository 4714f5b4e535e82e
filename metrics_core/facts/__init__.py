"""Facts about texts, frames and sound: pure functions that describe and do not judge, without a reference. Only text
on screen and speech need a model.
"""
