"""The science: pure functions on arrays and text. Importing this package needs only NumPy."""
