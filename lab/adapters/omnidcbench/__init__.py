"""OmniDCBench without media: timed references with keypoints by dimension, and the captions that systems predicted.

The references are JSON Lines with `clip_path` and `human_json_anno` (or `human_json_anno_en`), a list of segments; a
system's predictions are JSON Lines or one JSON object. docs/manifest.md describes the rows that come of them. Run it
as a program:

    python -m lab.adapters.omnidcbench REFERENCES FOLDER --predictions SYSTEM=FILE [--labels SYSTEM=FILE]
"""
