"""The engine on Ray: actors compute the steps of a run, on this machine or on a cluster."""
