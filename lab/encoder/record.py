"""Writes the demo encoder's training record: record.json for programs, RECORD.md for people."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from metrics_core.file_hash import compute_file_sha256

TEXT = """# Training record of the demo encoder

Written by `python -m lab.encoder.train`; record.json holds the same facts for programs. The encoder was trained from
nothing on clips of the demo world alone. It knows the shapes, colours and words of that world and nothing else: its
scores on real videos mean nothing.

## Data
{n_clips} synthetic clips, seeds {first} to {last}, {frames_per_clip} frames of each (one at a random place of each
equal part), squashed to {image_size} x {image_size} pixels, as drawn (no video codec). Texts: the sentences of all
voices, drawn several times to meet all wordings; the phrases that the project's own rules for keywords find in them
(`list_phrases`); the names of the actors in view; stretches of one to eight neighbouring sentences. No dataset of the
demo uses these seeds unless its seed is {low} or more.

## Training
{weights} numbers (float32): a ResNet of open_clip with width 12 and a causal text tower of two layers. Symmetric
InfoNCE of frames with single texts and of pooled frames with stretches of captions, {clips_per_step} clips and
{frames_per_step} frames of each per step. Left out of the negatives: texts that are true of the other clip. Added to
them: the same text with other colours and counts. sys_wrong_details is made in a similar way, so the share measured
against this system is that of an encoder trained against just such errors.

{steps} steps of AdamW, learning rate {learning_rate}, seed {seed}, {threads} thread(s) on a CPU. Preparing the data
took {preparation_s} s, training {training_s} s. The same settings give the same weights on the same machine and
versions; other machines may round otherwise.

Mean loss by step, each since the step before: {curve}.

## Measured on fresh clips
{n_fresh} clips, seeds from {first_fresh}, every 30th frame, EVQAScore with the keywords of RuleKeywords and chunk_mean;
"above": share of the clips with both scores, "mean": mean EVQAScore, "unscored": share of captions without a score,
clip_of_caption: share of faithful captions whose own clip has the highest cosine of all clips:

{table}

## Weaknesses
- One frame shows no motion: "moves to the left" and "spins" are told apart only by what is named in them.
- Training stretches keep the order of telling, and shuffled captions are unlike them: what sys_faithful gains over
  sys_shuffled is most likely habit, for nothing in the frames' features tells the order of events.
- The caption of a clip is often not found among hundreds of others (clip_of_caption): the encoder tells true from
  false details on average over a caption, not every clip from every other.
- Scores lie near 0 for captions about something else; where precision and recall differ in sign there is no score
  (status negative_match, "unscored" above).
- Words such as "scene" or "set" are true of every clip, so their features were never trained against anything.
- Small shapes are a few pixels wide after the squash. How well colours, shapes and counts are told apart one by one was
  not measured.
- Words outside the vocabulary all look alike.
"""


def write_record(
    folder: Path, settings: Mapping[str, Any], outcome: Mapping[str, Any], fresh: Mapping[str, Any]
) -> None:
    """Write record.json and RECORD.md beside the weights.

    settings: the settings of `train`. outcome: the result of `train`. fresh: first_clip_seed, n_clips and `measured`,
    the result of `evaluate`.
    """
    files = sorted(file for file in folder.glob("demo_clip.*"))
    versions = {name: metadata.version(name) for name in ("torch", "open_clip_torch", "numpy", "pillow")}
    record = {
        "settings": settings,
        "outcome": outcome,
        "fresh_clips": fresh,
        "versions": {"python": platform.python_version(), **versions},
        "sha256": {file.name: compute_file_sha256(file).hex() for file in files},
    }
    (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    first = settings["first_clip_seed"]
    text = TEXT.format(
        **settings,
        **outcome,
        first=first,
        last=first + settings["n_clips"] - 1,
        low=first // 1000,
        curve=", ".join(f"{step}: {loss:.2f}" for step, loss in outcome["losses"]),
        n_fresh=fresh["n_clips"],
        first_fresh=fresh["first_clip_seed"],
        table="\n".join(f"- {name}: {value}" for name, value in fresh["measured"].items()),
    )
    (folder / "RECORD.md").write_text(text, encoding="utf-8")
