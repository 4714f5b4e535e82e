"""Names of columns by their meaning, in English and ten other languages, as people write them in headers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_FORM_PREFIX = re.compile(r"(input|answer)\.", re.IGNORECASE)

# By meaning, in the order of trust. English comes first; then German, French, Spanish, Portuguese, Italian, Dutch,
# Russian, Chinese, Japanese and Korean. Words that differ only in accents from an earlier one need no entry.
HEADER_WORDS: Mapping[str, str] = {
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


@lru_cache(4096)
@lru_cache(maxsize=4096)
def normalise_header(name: str) -> str:
    """Return a column's name as names are compared: without capital letters, accents, spaces and punctuation. A name of
    nothing else comes back unchanged.

    >>> normalise_header(" Vidéo_File "), normalise_header("动画"), normalise_header("--")
    ('videofile', '动画', '--')
    """
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(filter(str.isalnum, plain)) or name


def drop_form_prefix(column: str) -> str:
    """Return a column's name without the part before it in the tables of Mechanical Turk.

    >>> drop_form_prefix("Input.video"), drop_form_prefix("Answer.overall")
    ('video', 'overall')
    """
    return _FORM_PREFIX.sub("", column) or column


def _parse_words(words: str) -> tuple[str, ...]:
    names = (normalise_header(name) for line in words.splitlines() for name in line.split(";") if name.strip())
    return tuple(dict.fromkeys(names))


# The names of HEADER_WORDS, normalised.
KNOWN_HEADERS: Mapping[str, tuple[str, ...]] = {meaning: _parse_words(words) for meaning, words in HEADER_WORDS.items()}
