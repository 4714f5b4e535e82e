"""What is materialised: ingest, embeddings, scores, thresholds, selection, reports and their checks."""

import warnings

# Partitioned checks and virtual assets are previews in Dagster 1.13, and its version is pinned: nobody need be told.
warnings.filterwarnings("ignore", message=r".*is currently in preview.*")
