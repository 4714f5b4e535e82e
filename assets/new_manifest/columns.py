"""The meanings of the columns of a table, or of the fields of a JSON object, by their names in many languages."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from assets.ingest.rows import ORIGIN_FIELDS
from assets.ingest.scales import Scale, parse_scale
from assets.new_manifest.findings import NoManifest
from assets.words.text import format_count, join_names

# The columns without a meaning that a sentence names.
_NAMED = 8
_OVERALL = "overall"
_RULE = re.compile(r"(.*?)(?:, mean of ([2-9]|[1-9][0-9]{1,6}))?")
# What the option --rating has after its last =, where that is a scale, right or wrong, and no names of columns.
_LIKE_RULE = re.compile(r"(-?[0-9].*|mean\b.*|yes-no.*|real.*)?")
# The names of columns by several raters, such as rater1_coverage, rating_1, rating_b and "Rating (Anna)".
_RATER = re.compile(
    r"(?:(.+)[\W_])?(?:rater|annotator|evaluator|reviewer|judge|coder|worker|participant|person|expert)"
    r"[\W_]?([0-9]{1,3}|[a-z])(?:[\W_]+(.+))?",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(.*[^\W\d_])[\W_]*([0-9]{1,3})")
_LETTERED = re.compile(r"(.+?)(?:[\W_]+([A-Za-z]|[aeprwAEPRW][0-9]{1,3})|\s*\((.+)\))")
# Numbers after these words, or after a letter, count no raters.
_COUNTED = "question item aspect criterion dimension statement video clip caption candidate system"
_FORM_PREFIX = re.compile(r"(input|answer)\.", re.IGNORECASE)

# By meaning, in the order of trust. English comes first; then German, French, Spanish, Portuguese, Italian, Dutch,
# Russian, Chinese, Japanese and Korean. Words that differ only in accents from an earlier one need no entry.
_HEADER_WORDS: Mapping[str, str] = {
    "video": """
        video; video_path; video_file; path; file_name; filename; file_path; filepath; file; clip; clip_path; mp4;
        video_url; url; video_id; videoid; video_name; clip_id; clip_name; videos
        Videodatei; Videopfad; Datei; Dateiname; Dateipfad; Pfad; fichier vidéo; fichier; nom du fichier; chemin
        archivo de vídeo; archivo; nombre de archivo; fichero; ruta; arquivo de vídeo; arquivo; nome do arquivo
        ficheiro; caminho; file video; nome file; nome del file; filmato; percorso; videobestand; bestand
        bestandsnaam; pad; видео; видеофайл; файл; имя файла; путь; 视频; 視頻; 影片; 视频文件; 视频路径; 文件; 文件名
        路径; 檔案; 檔名; 路徑; 動画; ビデオ; 映像; 動画ファイル; ファイル; ファイル名; パス; 비디오; 동영상; 영상
        비디오 파일; 파일; 파일명; 파일 이름; 경로
    """,
    "caption": """
        caption; captions; text; description; caption_text; txt; sentence; sentences; enCap; conversations; conversation
        messages; content; cap
        Beschreibung; Bildunterschrift; Beschriftung; légende; texte; descripción; leyenda; texto; legenda; descrição
        didascalia; descrizione; testo; bijschrift; beschrijving; omschrijving; tekst; описание; подпись; текст
        描述; 字幕; 说明; 說明; 文本; 文字; キャプション; 説明; 説明文; テキスト; 캡션; 설명; 자막; 텍스트
    """,
    # Captions in the same row as another caption or a reference.
    "candidates": """
        candidates; candidate; predictions; prediction; hypotheses; hypothesis
        Kandidaten; Kandidat; Vorhersagen; Vorhersage; Hypothese; candidats; candidat; hypothèse; candidatos; candidato
        predicciones; predicción; predições; predição; candidati; predizione; kandidaat; voorspelling; кандидаты
        кандидат; предсказание; гипотеза; 候选; 候選; 预测; 預測; 候補; 予測; 후보; 예측
    """,
    "reference": """
        reference; references; reference_caption; reference_text; ref; refs; ground_truth; gt; gt_caption
        Referenz; Referenzen; Referenztext; référence; références; referencia; referencias; referência; referências
        riferimento; riferimenti; referentie; referenties; эталон; референс; 参考; 參考; 参考描述; 参考答案; 参照
        参照文; 正解; リファレンス; 참조; 정답
    """,
    "system": """
        system; model; model_name; system_name; captioner
        Modell; système; modèle; sistema; modelo; modello; systeem; система; модель; 系统; 系統; 模型; システム; モデル
        시스템; 모델
    """,
    "role": "role",
    "video_id": "video_id; videoid; id vidéo; Videonummer; ид видео; 视频id; 視頻id; 動画id; 비디오 id",
    "caption_id": "caption_id",
    "segments": "segments; Segmente; segmentos; segmenti; segmenten; сегменты; 片段; セグメント; 구간",
    "rater": """
        rater; rater_id; rater_name; annotator; annotator_id; annotator_name; worker; worker_id; participant
        participant_id; prolific_id; prolific_pid; judge; judge_id; evaluator; evaluator_id; reviewer; reviewer_id
        rated_by; annotated_by; completed_by; email; email_address; response_id; labeler_id; labeller_id
        coder; coder_id; labeler; labeller; respondent; respondent_id; expert; expert_id; user; user_id; username
        user_name; subject; subject_id; person; person_id; raters; annotators
        Bewerter; Bewerterin; Teilnehmer; Teilnehmerin; Gutachter; Gutachterin; évaluateur; annotateur; juge
        evaluador; anotador; participante; juez; avaliador; valutatore; annotatore; partecipante; beoordelaar; deelnemer
        оценщик; аннотатор; участник; 评分者; 评分人; 标注者; 标注员; 評分者; 標註者; 評価者; 参加者; 평가자; 참가자
    """,
    "question": """
        question; questions; q; query; Frage; Fragen; pregunta; pergunta; domanda; vraag; вопрос; 问题; 問題; 質問; 질문
    """,
    "answer": """
        answer; answers; a; correct_answer; correct_choice; correct_option; gt_answer; answer_text; response
        ground_truth; gt; Antwort; Antworten; réponse; respuesta; resposta; risposta; antwoord; ответ; 答案; 回答; 正解
        정답; 답변
    """,
    "options": """
        options; option; choices; candidates; mc_options; Optionen; Antwortmöglichkeiten; opciones; opções; opzioni
        opties; варианты; 选项; 選項; 選択肢; 선택지; 보기
    """,
    "qa_id": "qa_id; question_id; qid",
    # Numbers that may be ratings of people; the user decides.
    "rating": """
        rating; ratings; score; scores; mos; stars; overall; overall_rating; overall_score; human_rating; human_ratings
        human_score; human_scores; user_rating; likert
        Bewertung; Bewertungen; Note; Punkte; évaluation; valoración; puntuación; calificación; nota; avaliação
        pontuação; valutazione; punteggio; voto; beoordeling; оценка; рейтинг; 评分; 評分; 分数; 評価; スコア; 点数
        평점; 평가; 점수
    """,
}


@lru_cache(maxsize=4096)
def normalise_header(name: str) -> str:
    """Return a column's name as names are compared: without capital letters, accents, spaces and punctuation. A name of
    nothing else is returned unchanged.

    >>> normalise_header(" Vidéo_File "), normalise_header("动画"), normalise_header("--")
    ('videofile', '动画', '--')
    """
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(filter(str.isalnum, plain)) or name


def _strip_form_prefix(column: str) -> str:
    """Return a column's name without the part before it in the tables of Mechanical Turk.

    >>> _strip_form_prefix("Input.video"), _strip_form_prefix("Answer.overall")
    ('video', 'overall')
    """
    return _FORM_PREFIX.sub("", column) or column


def _parse_words(words: str) -> tuple[str, ...]:
    names = (normalise_header(name) for line in words.splitlines() for name in line.split(";") if name.strip())
    return tuple(dict.fromkeys(names))


# The names of _HEADER_WORDS, normalised.
KNOWN_HEADERS: Mapping[str, tuple[str, ...]] = {
    meaning: _parse_words(words) for meaning, words in _HEADER_WORDS.items()
}


How = Literal["given", "name", "content"]


class MappedColumn(NamedTuple):
    """The column that holds a field, by its name, and how it was found: `given` by the user, or guessed from its `name`
    or from the `content` of its cells.
    """

    name: str
    how: How


class RatingColumn(NamedTuple):
    """A column of ratings: its name, the aspect rated, and the scale, None for whole numbers from 1 to 5. rater: who
    gave all of them, None where the row or the position in a cell shows it. mean_of: the number of raters whose mean a
    number is, None for one. given_name: as the user writes the column's name.
    """

    name: str
    aspect: str
    rater: str | None = None
    scale: Scale | None = None
    mean_of: int | None = None
    given_name: str = ""


def parse_ratings(texts: Sequence[str], names: Collection[str] = ()) -> tuple[RatingColumn, ...]:
    """Return the columns that values of the option --rating name: "score", "score=0-100", "mos=1-5, mean of 3" or
    "overall=r1,r2". Several columns of an aspect are by several raters. Without an aspect it is the column's name, and
    "overall" for one such as rating or score_1. names: of columns, which may have commas.

    Raises NoManifest for an invalid rule, and for an aspect with two.

    >>> [column[:3] for column in parse_ratings(["Rating 1", "Rating 2", "fluency"])]
    [('Rating 1', 'overall', 'rater_1'), ('Rating 2', 'overall', 'rater_2'), ('fluency', 'fluency', None)]
    """
    options = [_parse_option(text, names) for text in texts]
    implied = [_split_name(name) for _, aspect, columns, *_ in options if not aspect for name in columns]
    stems = Counter(stem for stem, _ in implied)
    n_general = len({stem for stem in stems if _is_general(stem)})

    def choose_aspect(name: str) -> str:
        stem, _ = _split_name(name)
        if _is_general(stem):
            return _OVERALL if n_general == 1 else stem
        return stem if stems[stem] > 1 or _names_rater(name) else _strip_form_prefix(name)

    found = [
        (text, RatingColumn(name, aspect or choose_aspect(name), _split_name(name)[1] or name, scale, mean_of, name))
        for text, aspect, columns, scale, mean_of in options
        for name in columns
    ]
    rules: dict[str, tuple[Scale | None, int | None]] = {}
    for text, column in found:
        if rules.setdefault(column.aspect, column[3:5]) != column[3:5]:
            raise NoManifest(f"--rating {text}: {column.aspect!r} has another scale already: give an aspect only one")
    raters = Counter((column.aspect, column.rater) for _, column in found)
    n_columns = Counter(column.aspect for _, column in found)

    def choose_rater(column: RatingColumn) -> str | None:
        if n_columns[column.aspect] == 1 and not _names_rater(column.name):
            return None
        return column.rater if raters[column.aspect, column.rater] == 1 else column.name

    return tuple(column._replace(rater=choose_rater(column)) for _, column in found)


def _parse_option(text: str, names: Collection[str]) -> tuple[str, str, Sequence[str], Scale | None, int | None]:
    """Return the text, its aspect, "" without one, its columns, their scale and the number of a mean's raters."""
    rest, has_rule, rule = text.rpartition("=")
    scale, mean_of = None, None
    if text in names or not has_rule or not _LIKE_RULE.fullmatch(rule):
        rest = text
    elif (match := _RULE.fullmatch(rule)) and (scale := parse_scale(match[1])):
        mean_of = int(match[2]) if match[2] else None
    else:
        raise NoManifest(
            f"--rating {text}: {rule!r} is not a scale: write COLUMN, COLUMN=0-100, COLUMN=yes-no or COLUMN=real, "
            "with ', lowest is best' or ', mean of 3' after it if it is so"
        )
    aspect, _, columns = rest.rpartition("=")
    if rest in names or columns in names:
        return text, aspect if columns in names else "", [columns if columns in names else rest], scale, mean_of
    return text, aspect, [name.strip() for name in columns.split(",")], scale, mean_of


@lru_cache(maxsize=4096)
def is_rating_name(column: str) -> bool:
    """Return whether a column's name, such as score, "Rating (Anna)" or rater_1, shows that it may hold ratings."""
    return _is_general(_split_name(column)[0])


def _is_general(stem: str) -> bool:
    return normalise_header(stem) in KNOWN_HEADERS["rating"]


def _names_rater(column: str) -> bool:
    return _RATER.fullmatch(_strip_form_prefix(column)) is not None


def _split_name(column: str) -> tuple[str, str | None]:
    """Split the name of a column into what was rated and a rater; None without one."""
    name = _strip_form_prefix(column)
    if match := _RATER.fullmatch(name):
        return " ".join(filter(None, (match[1], match[3]))) or _OVERALL, f"rater_{match[2].lower()}"
    if (match := _LETTERED.fullmatch(name)) and _is_general(match[1]):
        return match[1], match[3] or f"rater_{match[2].lower()}"
    if match := _NUMBERED.fullmatch(name):
        stem = _OVERALL if match[1].lower() == "r" else match[1]
        is_counted = len(stem) == 1 or normalise_header(stem) in _COUNTED.split()
        return (name, None) if is_counted else (stem, f"rater_{match[2]}")
    return name, None


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names that the user gives for columns: `by_field` has the column of a field such as "reference", and all
    others are guessed. `ratings` are values of the option --rating, as `parse_ratings` takes them.
    """

    by_field: Mapping[str, str] = field(default_factory=dict)
    ratings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The fields that a table holds: `by_field` has the column of a field, such as `caption`, where there is one,
    and `ratings` are the columns of ratings. `column_names` are those that the user gave, also for other tables.
    """

    by_field: Mapping[str, MappedColumn]
    ratings: tuple[RatingColumn, ...] = ()
    column_names: ColumnNames = ColumnNames()

    def __getitem__(self, field: str) -> str | None:
        """Return the name of the column that holds a field; None where there is none."""
        return self.by_field[field].name if field in self.by_field else None

    @property
    def given_names(self) -> set[str]:
        """The names of columns that the user gave and the table has, as the user writes them."""
        given = {self.column_names.by_field[name] for name, found in self.by_field.items() if found.how == "given"}
        return given | {column.given_name for column in self.ratings}

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of every column that has one, such as "caption", by the column's name. A column of raters has one
        only where there are ratings.
        """
        unused = {*([] if self.ratings else ["rater"]), *([] if self.has_pairs else _OF_PAIRS)}
        meanings = {self.by_field[name].name: name for name in FIELDS if name in self.by_field and name not in unused}
        by = {column.name: f" by {column.rater}" if column.rater else "" for column in self.ratings}
        return meanings | {column.name: f"ratings of {column.aspect!r}{by[column.name]}" for column in self.ratings}

    @property
    def has_video_and_text(self) -> bool:
        """Whether the table has a column of videos and one of texts about them, or those of questions and answers."""
        return "video" in self.by_field and (self.has_text or self.has_pairs)

    @property
    def has_pairs(self) -> bool:
        """Whether there are columns of questions and of answers."""
        return {"question", "answer"} <= self.by_field.keys()

    @property
    def has_text(self) -> bool:
        """Whether there is a column of captions, candidates or references."""
        return not self.by_field.keys().isdisjoint(("caption", "candidates", "reference"))

    def format_guess(self) -> str:
        """Format the columns and their meanings as text, with commas between them, such as "video in column 'Video'".

        Columns without a meaning are left out.
        """
        return ", ".join(f"{meaning} in column {column!r}" for column, meaning in self.meanings.items())

    def format_unknown(self, names: Iterable[str]) -> str:
        """Format those names of columns that have no meaning here as text, "" without one. Columns that are offered as
        ratings, or hold the origin of videos, are not among them.
        """
        known = {*self.meanings, *ORIGIN_FIELDS}
        unknown = [name for name in names if name not in known]
        shown = [repr(name) for name in unknown if not is_rating_name(name)]
        more = [format_count(len(shown) - _NAMED, "more column")] if len(shown) > _NAMED else []
        return join_names([*shown[:_NAMED], *more])


# What a column can hold, except ratings.
FIELDS = tuple(field for field in _HEADER_WORDS if field != "rating")
_OF_PAIRS = ("question", "answer", "options", "qa_id")


def guess_columns(
    names: Collection[str],
    column_names: ColumnNames = ColumnNames(),
    *,
    by_content: Mapping[str, str] = MappingProxyType({}),
    is_caption_file: bool = False,
) -> ColumnMap:
    """Map fields to columns by the columns' names, in small or capital letters. A column that the user gave in
    `column_names` comes before a guess, and one that the cells show, in `by_content` by field, before both.
    is_caption_file: `names` are the fields of a file that belongs to a video, so none names a video.

    >>> guess_columns(["Video", "caption", "fps"]).format_guess()
    "video in column 'Video', caption in column 'caption'"
    """
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(normalise_header(name), name)
    for name in names:
        by_name.setdefault(normalise_header(_strip_form_prefix(name)), name)

    def find(wanted: str) -> str | None:
        return wanted if wanted in names else by_name.get(normalise_header(wanted))

    fields = [field for field in FIELDS if not (is_caption_file and field in ("video", "video_id", *_OF_PAIRS))]
    known = {**column_names.by_field, **by_content}
    columns = {field: find(known[field]) for field in fields if field in known}
    asked = parse_ratings(column_names.ratings, names)
    ratings = tuple(
        column._replace(name=found, aspect=_strip_form_prefix(found) if column.aspect == column.name else column.aspect)
        for column in asked
        if (found := find(column.name)) is not None
    )

    def guess(field: str) -> str | None:
        if field not in columns:
            taken = {*columns.values(), *(column.name for column in ratings)}
            guesses = (by_name[name] for name in KNOWN_HEADERS[field] if name in by_name)
            columns[field] = next((column for column in guesses if column not in taken), None)
        return columns[field]

    named, unused = dict(columns), set(_OF_PAIRS)
    if not is_caption_file and guess("question") and guess("answer"):
        guess("options")
        # With a question they are answers.
        unused = set() if guess("caption") else {"candidates", "reference"}
    else:
        columns = named
    for name in fields:
        if name not in unused:
            guess(name)

    def explain(field: str, column: str) -> How:
        if field in column_names.by_field and find(column_names.by_field[field]) == column:
            return "given"
        return "content" if field in by_content else "name"

    by_field = {
        field: MappedColumn(column, explain(field, column)) for field, column in columns.items() if column is not None
    }
    return ColumnMap(by_field, ratings, column_names)


def check_columns(where: str, names: Collection[str], columns: ColumnMap) -> None:
    """Raise NoManifest unless a table has both a column of videos and one of texts about them. The message names the
    option that gives the column. where: name of the table, for the message. names: of all its columns.
    """
    if not names:
        raise NoManifest(f"{where}: it has no column: give a table with a column of videos and one of captions")
    listed = ", ".join(repr(name) for name in names)
    if columns["video"] is None:
        raise NoManifest(
            f"{where}: no column was recognised as that of the videos: choose one of {listed} with --column video=NAME"
        )
    if not columns.has_video_and_text:
        raise NoManifest(
            f"{where}: no column was recognised as the one of captions: choose one of {listed} with "
            "--column caption=NAME, or those of questions with --column question=NAME --column answer=NAME"
        )
