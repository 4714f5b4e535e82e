"""Scores for a table in memory: pandas, polars, pyarrow, or a dataset of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from reelsieve.errors import ReelsieveError, raise_reelsieve_errors
from reelsieve.functions import FunctionMetric
from reelsieve.samples import build_sample, list_keywords, make_scorer, read_video, score_samples

if TYPE_CHECKING:
    from assets.scores.base import Outcome
    from db.evidence.frames import StoredVideo
    from db.schema.inputs import VideoState
    from db.scores.pending import PendingSample

Frame = TypeVar("Frame")
# The status of a row that cannot be a sample, as ingest would refuse it.
REFUSED = "refused"
# Columns that only this function knows; columns of videos, captions, references and systems are guessed as by `init`.
EXACT = ("keypoints", "question", "answer")


@raise_reelsieve_errors
def score(frame: Frame, metrics: Sequence[str | FunctionMetric], **settings: Any) -> Frame:
    """Score every row of a table, and return the table with columns METRIC, METRIC_status and METRIC_reason added for
    each metric. A row that cannot be scored has no value, a status and a reason. metrics: names, and metrics that
    `rs.metric` made. settings: models and parameters by name, as in `vcs`, for every metric that has them.

    The rows keep their order, and columns of these names are replaced. A row has a `caption`, or a `question` with an
    `answer`; and as the metrics need them `references` (a text or a list of texts, only for this row), `keypoints` (the
    same) and `video` (a path or an address). Captions, references and videos may also have the names of columns that
    `reelsieve init` knows.

    Nothing is stored in a database. Raises ReelsieveError for a table without such columns, an unknown metric or
    setting, and a model that cannot be loaded.

    >>> import pandas as pd
    >>> import reelsieve as rs
    >>> dog = "A dog runs home."
    >>> captions = pd.DataFrame({"caption": [dog, "A cat sleeps."], "references": [dog, None]})
    >>> rs.score(captions, metrics=["vcs_short"])[["vcs_short", "vcs_short_status"]]
       vcs_short vcs_short_status
    0        1.0               ok
    1        NaN     no_reference
    """
    kind = find_table_adapter(frame)
    scorers = _make_scorers(metrics, settings)
    rows = _SampleColumns.find(kind.list_columns(frame))
    new: dict[str, list[Any]] = {}
    with _show_progress() as tell:
        tell("reading rows")
        samples, refused, files = rows.read_samples(
            kind.read_rows(frame, rows.column_names), needs_videos=_needs_videos(scorers.values())
        )
        for metric, scorer in scorers.items():
            outcomes = {**refused, **_score_samples(scorer, samples, files, tell)}
            in_order = [outcomes[number] for number in range(len(outcomes))]
            new[metric] = [outcome.value for outcome in in_order]
            new[f"{metric}_status"] = [outcome.status for outcome in in_order]
            new[f"{metric}_reason"] = [outcome.reason for outcome in in_order]
    joined: Frame = kind.add_columns(frame, new)
    return joined


@contextmanager
def _show_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line in place of the one before, on a terminal or in a notebook; elsewhere nothing
    is shown.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


def _make_scorers(metrics: Sequence[str | FunctionMetric], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scorers by metric, each with those of the settings that it has. Raises ReelsieveError for an unknown
    metric or setting.
    """
    from assets.metrics.registry import SCORERS
    from db.spelling import suggest_name

    if metrics is None or isinstance(metrics, int | float):
        raise ReelsieveError(f"metrics is {metrics}: name some of {', '.join(SCORERS)}")
    chosen = [metrics] if isinstance(metrics, str | FunctionMetric) else list(metrics)
    if not chosen:
        raise ReelsieveError(f"metrics is empty: name some of {', '.join(SCORERS)}")
    function_metrics = {item.metric: item for item in chosen if isinstance(item, FunctionMetric)}
    names = [str(item) for item in chosen if not isinstance(item, FunctionMetric)]
    for name in names:
        if name not in SCORERS:
            raise ReelsieveError(f"there is no metric {name!r}{suggest_name(name, SCORERS)}")
    fields = {name: list_keywords(SCORERS[name]) for name in names}
    known = {setting for model_fields in fields.values() for setting in model_fields}
    if unknown := [setting for setting in settings if setting not in known]:
        hint = suggest_name(unknown[0], sorted(known))
        raise ReelsieveError(f"none of the named metrics has a setting {unknown[0]!r}{hint}")
    own_settings = {name: {item: settings[item] for item in settings if item in fields[name]} for name in names}
    return {name: make_scorer(name, own_settings[name]) for name in names} | function_metrics


def _needs_videos(scorers: Iterable[Any]) -> bool:
    """Whether any scorer reads videos."""
    from db.schema.inputs import VIDEO

    return any(VIDEO in scorer.inputs for scorer in scorers)


def _score_samples(
    scorer: Any, samples: Sequence[PendingSample], files: Mapping[int, StoredVideo], tell: Callable[[str], None]
) -> dict[int, Outcome]:
    """Return the outcomes of samples by their numbers; some hundred samples are scored at a time."""
    from assets.sources.base import BATCH_SIZE
    from assets.words.text import format_count

    outcomes: dict[int, Outcome] = {}
    for start in range(0, len(samples), BATCH_SIZE):
        batch = samples[start : start + BATCH_SIZE]
        tell(f"{scorer.metric}: {start:,} of {format_count(len(samples), 'row')} scored")
        batch_outcomes = score_samples(
            scorer, batch, lambda ids: [files[video_id] for video_id in sorted(ids) if video_id in files]
        )
        outcomes |= {sample.sample_id: outcome for sample, outcome in zip(batch, batch_outcomes, strict=True)}
    return outcomes


@dataclass(frozen=True)
class _SampleColumns:
    """The names of a table's columns by their meaning; None for a meaning without a column."""

    caption: str | None
    references: str | None
    keypoints: str | None
    video: str | None
    system: str | None
    question: str | None
    answer: str | None

    @classmethod
    def find(cls, names: Sequence[Any]) -> _SampleColumns:
        """Find the columns of a table by their names. Raises ReelsieveError if nothing can be scored by them."""
        from assets.new_manifest.columns import KNOWN_HEADERS, guess_columns, normalise_header

        texts = [name for name in names if isinstance(name, str)]
        guessed = guess_columns(texts)
        exact = {name: name if name in texts else None for name in EXACT}
        if guessed["caption"] is None and not (exact["question"] and exact["answer"]):
            shown = ", ".join(map(repr, texts)) or "none"
            known = KNOWN_HEADERS["caption"][0]
            raise ReelsieveError(f"the table has no column of captions (columns: {shown}): rename one to {known}")
        if repeated := [name for name in texts if texts.count(name) > 1]:
            raise ReelsieveError(f"several columns of the table are named {repeated[0]!r}: give each its own name")
        is_path = guessed["video"] is not None and normalise_header(guessed["video"]) != "videoid"
        return cls(
            caption=guessed["caption"],
            references=guessed["reference"],
            video=guessed["video"] if is_path else None,
            system=guessed["system"],
            **exact,
        )

    @property
    def column_names(self) -> list[str]:
        """The names of the columns that are read."""
        return [name for name in self.__dict__.values() if name is not None]

    def read_samples(
        self, rows: Sequence[Mapping[str, Any]], *, needs_videos: bool
    ) -> tuple[list[PendingSample], dict[int, Outcome], dict[int, StoredVideo]]:
        """Return the samples, the outcomes of rows that cannot be samples (by row number from 0), and the video files
        by the numbers of videos.

        needs_videos: whether video files are read. A video has its own number for every set of references and
        keypoints, since the samples of a video share these.
        """
        from assets.scores.base import Outcome

        samples: list[PendingSample] = []
        refused: dict[int, Outcome] = {}
        videos: dict[str, tuple[int, VideoState]] = {}
        files: dict[int, StoredVideo] = {}
        for number, row in enumerate(rows):
            try:
                path = self._cell(row, "video") if needs_videos else None
                content = [path, self._cell(row, "references") or (), self._cell(row, "keypoints") or ()]
                if (key := repr(content)) not in videos:
                    videos[key] = len(videos), _read_video_state(path, len(videos), files)
                samples.append(self._sample(row, number, *videos[key], *content[1:]))
            except ReelsieveError as error:
                refused[number] = Outcome(None, REFUSED, str(error))
        return samples, refused, files

    def _sample(
        self, row: Mapping[str, Any], number: int, video: int, state: VideoState, references: Any, keypoints: Any
    ) -> PendingSample:
        question, answer = self._cell(row, "question"), self._cell(row, "answer")
        is_pair = isinstance(question, str) and isinstance(answer, str)
        caption = f"{question.strip()} {answer.strip()}" if is_pair else self._cell(row, "caption")
        system = str(self._cell(row, "system") or "")
        made = build_sample(caption, references, keypoints, state, number=number, video=video, system=system)
        return replace(made, kind="qa", question=question, answer=answer) if is_pair else made

    def _cell(self, row: Mapping[str, Any], meaning: str) -> Any:
        name = getattr(self, meaning)
        return None if name is None else row[name]


def _read_video_state(path: Any, number: int, files: dict[int, StoredVideo]) -> VideoState:
    """Return the state of a video, and add its file to `files` if it decodes. A missing file is a state, too."""
    from db.schema.inputs import VideoState

    try:
        state, videos = read_video(path, number)
    except ReelsieveError as error:
        return VideoState("undecodable", str(error).removeprefix("video: "))
    files |= {video.video_id: video for video in videos}
    return state


@dataclass(frozen=True)
class _TableAdapter:
    """How one library's tables are handled: list the columns, read the rows of some columns, and add columns."""

    list_columns: Callable[[Any], Sequence[Any]]
    read_rows: Callable[[Any, list[str]], list[dict[str, Any]]]
    add_columns: Callable[[Any, dict[str, list[Any]]], Any]


def find_table_adapter(frame: object) -> _TableAdapter:
    """Return the adapter for a table of pandas, polars, pyarrow or Hugging Face datasets: three functions that list its
    columns, read rows and add columns. The class of the table decides, and no library is imported. Raises
    ReelsieveError for an object that is no such table.
    """
    for class_ in type(frame).__mro__:
        if kind := _TABLE_ADAPTERS.get(f"{class_.__module__.partition('.')[0]}.{class_.__name__}"):
            return kind
    known = ", ".join(_TABLE_ADAPTERS)
    raise ReelsieveError(f"{type(frame).__module__}.{type(frame).__name__} is not a table: give one of {known}")


def _rows_of_pandas(frame: Any, names: list[str]) -> list[dict[str, Any]]:
    # By cells: a column of objects may hold texts in one row and lists in another, which Arrow refuses.
    columns = [[None if _is_nan(value) else _plain(value) for value in frame[name]] for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _is_nan(value: Any) -> bool:
    """Whether a cell is empty: pandas' NA, NaN and NaT differ from themselves, or cannot be compared."""
    return type(value).__name__ == "NAType" or (not hasattr(value, "__len__") and bool(value != value))


def _plain(value: Any) -> Any:
    """Return a cell as plain Python values: Parquet files give lists of texts as numpy arrays."""
    return value.tolist() if hasattr(value, "tolist") else value


def _add_to_pandas(frame: Any, new: dict[str, list[Any]]) -> Any:
    made = _build_arrow_table(new).to_pandas()
    return frame.assign(**{name: made[name].array for name in new})


def _add_to_datasets(frame: Any, new: dict[str, list[Any]]) -> Any:
    import datasets

    table = _build_arrow_table(new)
    kept = frame.remove_columns([name for name in new if name in frame.column_names])
    return datasets.concatenate_datasets([kept, datasets.Dataset(datasets.table.InMemoryTable(table))], axis=1)


def _add_to_polars(frame: Any, new: dict[str, list[Any]]) -> Any:
    import polars as pl

    return frame.with_columns(pl.DataFrame(_build_arrow_table(new)).get_columns())


def _add_to_arrow(frame: Any, new: dict[str, list[Any]]) -> Any:
    kept = frame.drop_columns([name for name in new if name in frame.column_names])
    for name, column in zip(new, _build_arrow_table(new).columns, strict=True):
        kept = kept.append_column(name, column)
    return kept


def _build_arrow_table(new: dict[str, list[Any]]) -> Any:
    """Return an Arrow table of new columns with their types, which a column without a value does not show."""
    import pyarrow as pa

    kinds = {name: pa.string() if name.endswith(("_status", "_reason")) else pa.float64() for name in new}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in new.items()})


_TABLE_ADAPTERS = {
    "pandas.DataFrame": _TableAdapter(lambda frame: list(frame.columns), _rows_of_pandas, _add_to_pandas),
    "polars.DataFrame": _TableAdapter(
        lambda frame: frame.columns, lambda frame, names: frame.select(names).to_dicts(), _add_to_polars
    ),
    "datasets.Dataset": _TableAdapter(
        lambda frame: frame.column_names,
        lambda frame, names: frame.select_columns(names).with_format("arrow")[:].to_pylist(),
        _add_to_datasets,
    ),
    "pyarrow.Table": _TableAdapter(
        lambda frame: frame.column_names, lambda frame, names: frame.select(names).to_pylist(), _add_to_arrow
    ),
}
