"""What is materialised: ingest, embeddings, scores, thresholds, selection, reports and their checks."""

import warnings

# Virtual assets and runs over ranges of partitions are new in Dagster 1.13, and its version is pinned: nobody need be
# told.
warnings.filterwarnings("ignore", message=r".*is currently in (preview|beta).*")
