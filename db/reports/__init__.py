"""What agreement and a report read of a dataset."""
