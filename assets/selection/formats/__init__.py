"""One writer of rows per format, and what each file says of itself."""
