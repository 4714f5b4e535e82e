"""The engine on Ray: actors take the steps of a run, on this machine or on a cluster."""
