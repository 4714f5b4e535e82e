"""What is materialised: ingest, embeddings, scores, thresholds, selection, reports and their checks."""

import warnings

# Partitioned checks and virtual assets are previews in Dagster 1.13; its version is pinned, so this tells nobody anything.
warnings.filterwarnings("ignore", message=r".*is currently in preview.*")
