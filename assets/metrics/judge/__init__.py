"""The metric `judge`: a vision model scores a caption by frames of its video, asked on all samples or on drawn ones."""
