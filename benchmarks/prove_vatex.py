"""Does a selection of VATEX-EVAL train better, with and without planted noise? `python -m benchmarks.prove_vatex`.

In a fresh home, for each kind and share of noise: `reelsieve ingest` of 550 videos (drawn by seed 5) with nine
references and six captions, `reelsieve score --metric cosine`, `reelsieve select --by cosine --keep 0.25`, and
`reelsieve prove`, with a curve over shares where captions are swapped. Where 40 % of the captions have noise, the best
quarter by length is tried, too. Noise of the kind

- `swapped`: captions trade their texts with captions of other videos;
- `keyword`: a caption is cut to one of its keywords, as EVQAScore's Table 4 does with answers;
- `negated`: a caption is negated by the rule of `reelsieve stress`; one that has a negation stays.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import RESULTS, add_result, read_results, save, vatex_source
from db.server.embedded import stop_embedded
from metrics_core.keywords import RuleKeywords
from metrics_core.stress.rewrites import REWRITE_KINDS, CaptionToRewrite, rewrite_caption

N_VIDEOS, SEED = 550, 5
SCORES = ("cosine", "n_characters")
TRIALS = (
    *[("swapped", share, "cosine") for share in (0.0, 0.2, 0.4, 0.6)],
    ("swapped", 0.4, "n_characters"),
    *[(kind, 0.4, by) for kind in ("keyword", "negated") for by in ("cosine", "n_characters")],
)
"""Kind and share of noise, and the score whose best quarter is selected."""
CURVE = (0.0625, 0.125, 0.25, 0.5, 1.0)
"""Shares of a dataset with swapped captions that are tried in the order of cosine."""
NEGATION = next(kind for kind in REWRITE_KINDS if kind.name == "negation")
COMMAND = "from orchestration.cli import main; main()"


class Caption(NamedTuple):
    """A caption of a video of VATEX-EVAL, which has number i of six."""

    video_id: str
    i: int
    text: str


def write_manifest(folder: Path, kind: str, noise: float) -> int:
    """Write videos, references and captions, of which a share has noise; return how many texts changed."""
    videos = [json.loads(line) for line in vatex_source().read_text(encoding="utf-8").splitlines()]
    draw = random.Random(SEED)
    videos = draw.sample(videos, N_VIDEOS)
    captions = [
        Caption(video["video_id"], i, each["text"]) for video in videos for i, each in enumerate(video["candidates"])
    ]
    chosen = sorted(draw.sample(range(len(captions)), round(noise * len(captions))))
    texts = dict(zip(chosen, spoil_texts([captions[place] for place in chosen], kind, draw), strict=True))
    rows = [
        {"caption_id": f"{video['video_id']}_r{i}", "video_id": video["video_id"], "role": "reference", "text": text}
        for video in videos
        for i, text in enumerate(video["references"])
    ]
    for place, caption in enumerate(captions):
        key = {"caption_id": f"{caption.video_id}_c{caption.i}", "video_id": caption.video_id, "role": "candidate"}
        rows.append({**key, "system": f"system_{caption.i}", "text": texts.get(place, caption.text)})
    folder.mkdir(exist_ok=True)
    for name, lines in (("videos", [{"video_id": video["video_id"]} for video in videos]), ("captions", rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return sum(text != captions[place].text for place, text in texts.items())


def spoil_texts(captions: Sequence[Caption], kind: str, draw: random.Random) -> list[str]:
    """Return the texts of captions in their order with noise of a kind; a text that it does not fit stays."""
    if kind == "swapped":
        # A video has six captions, so a text that moves by seven places is of another video.
        return [caption.text for caption in [*captions[7:], *captions[:7]]]
    if kind == "keyword":
        return [draw.choice(RuleKeywords().extract(caption.text) or [caption.text]) for caption in captions]
    # The rule draws nothing, so captions need no keys.
    return [rewrite_caption(NEGATION, CaptionToRewrite("", text, [text]), SEED) or text for _, _, text in captions]


def run(home: Path, *arguments: str) -> str:
    """Run a command on a home and return what it printed; SystemExit where it fails."""
    variables = {**os.environ, "REELSIEVE_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", COMMAND, *arguments], env=variables, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"reelsieve {' '.join(arguments)} failed")
    return done.stdout


def measure_trial(home: Path, folder: Path, kind: str, noise: float, by: str) -> dict[str, Any]:
    """Select a quarter of a dataset with noise by a score, and return the trial of the selection."""
    name = f"{kind}_{noise:g}"
    n_noisy = write_manifest(folder / name, kind, noise)
    run(home, "ingest", str(folder / name), "--dataset", name)
    run(home, "score", "--dataset", name, "--metric", "cosine")
    options = ("--by", by, "--keep", "0.25", "--json")
    selected = json.loads(run(home, "select", "--dataset", name, *options))
    started = time.perf_counter()
    shares = CURVE if (kind, by) == ("swapped", "cosine") else ()
    curve = [option for share in shares for option in ("--curve", str(share))]
    trial: dict[str, Any] = json.loads(run(home, "prove", str(selected["selection_id"]), *curve, "--json"))
    seconds = time.perf_counter() - started
    print(f"\n{noise:.0%} {kind}, best by {by}, {seconds:.0f} s", flush=True)
    for sentence in trial["sentences"]:
        print(f"  {sentence}", flush=True)
    return {"kind": kind, "noise": noise, "n_noisy": n_noisy, "by": by, "seconds": seconds, **trial}


def measure_all(folder: Path) -> list[dict[str, Any]]:
    """Return all trials, of which those that the folder has already are not run again."""
    home, log = folder / "home", folder / "trials.jsonl"
    trials = {(each["kind"], each["noise"], each["by"]): each for each in read_results(log)}
    try:
        for kind, noise, by in TRIALS:
            if (kind, noise, by) not in trials:
                trials[kind, noise, by] = measure_trial(home, folder, kind, noise, by)
                add_result(log, trials[kind, noise, by])
    finally:
        stop_embedded(home)
    return [trials[each] for each in TRIALS]


def main() -> None:
    """Measure all kinds and shares of noise, and write benchmarks/results/prove_vatex.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="a folder for home and results, in which a stopped run goes on")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trials = measure_all(given.folder or Path(folder))
    save(RESULTS / "prove_vatex.json", {"trials": trials})


if __name__ == "__main__":
    main()
