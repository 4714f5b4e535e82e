"""Writes a dataset of drawn clips in the project's manifest format; `python -m lab.demo` writes the one that ships.

``segment_index`` of a keypoint counts the segments of the clip's first reference, ``annotator_a``.
The dimensions acoustics and speech_content stay empty, because the clips are silent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.demo.describe import build_demo_questions, build_keypoints, describe_clip
from lab.demo.ratings import has_statement, rate_candidate
from lab.demo.render import write_video
from lab.demo.story import make_clip
from lab.demo.systems import build_candidates, find_least_similar_clip
from lab.demo.world import DemoClip

ANNOTATORS = ("annotator_a", "annotator_b")
FILES = ("videos", "captions", "keypoints", "keypoint_labels", "qa", "ratings")
NOTE = "Synthetic demo clip of moving shapes, drawn by a program. No sound track."

README = """Reelsieve demo dataset ({n} clips, seed {seed})

Everything in this folder is synthetic and was written by a program: the clips, both references, the six
candidates, the keypoints, their labels, the questions and the ratings. No person rated anything: the raters
synthetic_1 and synthetic_2 are formulas with a little noise, and every row of ratings.jsonl says
"synthetic": true. Agreement of a metric with these ratings proves that the pipeline works, not that the
metric agrees with people.

The clips are silent, so the keypoint dimensions acoustics and speech_content are empty.
segment_index in keypoints.jsonl counts the segments of the first reference, annotator_a, from 0.

Systems: sys_faithful (all true, in order), sys_brief (true, two sentences), sys_hallucinating (half of the
sentences false), sys_shuffled (the sentences of sys_faithful in another order), sys_wrong_details (colours
and counts wrong, order right), sys_offtopic (true of another clip).
"""

Row = dict[str, object]


def create_demo(folder: Path, *, n_clips: int, seed: int = 7) -> None:
    """Draw the videos of a demo dataset, and write them with their manifest and a README.txt into a folder. The same
    arguments give the same rows and the same pixels.

    Args:
        folder: where to write. It is made if it is missing, and files of the same names are replaced.
        n_clips: number of clips. At least 2, because the off-topic system describes another clip.
        seed: another seed gives other clips.
    """
    clips = make_demo_clips(n_clips, seed)
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    # x264 and much of NumPy release the interpreter lock, and threads need no __main__ guard in the caller.
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda key: write_video(clips[key], folder / _path(key)), clips))
    manifests = build_manifest_rows(clips)
    for name in FILES:
        _write_rows(folder / f"{name}.jsonl", manifests[name])
    (folder / "README.txt").write_text(README.format(n=n_clips, seed=seed), encoding="utf-8")


def make_demo_clips(n_clips: int, seed: int) -> dict[str, DemoClip]:
    """Return invented clips of the demo dataset, not drawn yet, by video id (clip_000, clip_001, ...). The same seed
    always gives the same clips.
    """
    return {f"clip_{index:03d}": make_clip(seed * 1000 + index) for index in range(n_clips)}


def build_manifest_rows(clips: dict[str, DemoClip]) -> dict[str, list[Row]]:
    """Return the rows of every table of the manifest for these clips, by the table's name: videos, captions, keypoints,
    keypoint_labels, qa and ratings. clips: at least two, by video id. Writes nothing.
    """
    rows: dict[str, list[Row]] = {name: [] for name in FILES}
    for index, (key, clip) in enumerate(clips.items()):
        rows["videos"].append({"video_id": key, "path": _path(key), "note": NOTE})
        points = [(f"{key}__kp{number:02d}", point) for number, point in enumerate(build_keypoints(clip), 1)]
        rows["keypoints"] += [
            {
                "keypoint_id": point_id,
                "video_id": key,
                "dimension": point.dimension,
                "text": point.text,
                "segment_index": point.segment_index,
            }
            for point_id, point in points
        ]
        rows["captions"] += _build_reference_rows(key, clip)
        rows["qa"] += _build_question_rows(key, clip)
        for candidate in build_candidates(clip, find_least_similar_clip(list(clips.values()), index)):
            caption_id = f"{key}__{candidate.system}"
            caption = _build_caption_row(key, "candidate", candidate.system, candidate.text)
            rows["captions"].append(caption)
            rows["keypoint_labels"] += [
                {
                    "keypoint_id": point_id,
                    "caption_id": caption_id,
                    "covered": has_statement(candidate, point.statement),
                }
                for point_id, point in points
            ]
            rows["ratings"] += [{"caption_id": caption_id, **row} for row in rate_candidate(clip, candidate)]
    return rows


def _build_reference_rows(key: str, clip: DemoClip) -> list[Row]:
    rows = []
    for annotator in ANNOTATORS:
        segments = [sentence.segment for sentence in describe_clip(clip, annotator)]
        text = " ".join(str(segment["text"]) for segment in segments)
        rows.append(_build_caption_row(key, "reference", annotator, text) | {"segments": segments})
    return rows


def _build_caption_row(key: str, role: str, system: str, text: str) -> Row:
    return {"caption_id": f"{key}__{system}", "video_id": key, "role": role, "system": system, "text": text}


def _build_question_rows(key: str, clip: DemoClip) -> list[Row]:
    return [
        {
            "qa_id": f"{key}__q{number}{mark}",
            "video_id": key,
            "question": q.question,
            "answer": answer,
            "quality": quality,
        }
        for number, q in enumerate(build_demo_questions(clip), 1)
        for mark, answer, quality in (("", q.answer, "good"), ("n", q.noisy_answer, "noisy"))
    ]


def _path(key: str) -> str:
    return f"videos/{key}.mp4"


def _write_rows(path: Path, rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
