"""Extracts keywords from an English text by rules, without a model, and cleans the keywords of any extractor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from metrics_core.protocols import KeywordExtractor, ModelIdentity


def _parse_word_set(words: str) -> frozenset[str]:
    """Split a string at white space into the set of its different words."""
    return frozenset(words.split())


NUMBERS = _parse_word_set("one two three four five six seven eight nine ten eleven twelve several many few some")
NOUN_OPENERS = _parse_word_set(
    """a an the this these those my your his her its our their another each every any no both all
    of in on at with into onto from near behind beside between under over above below inside around along across
    through against among toward towards"""
)
OTHER_FUNCTION_WORDS = _parse_word_set(
    """i you he she it we they me him us them myself himself herself itself ourselves themselves
    who whom whose which what where when why how that there here then than as if so because while until since though
    although whether and or but nor not yes yet
    is are was were be been being am do does did done doing has have had having can could will would shall should may
    might must let lets
    to for by about before after during without within up down out off away back together again also too very just
    only even still now once more most less least much such own same other others else like quite rather almost well
    something anything nothing everything someone anyone everyone nobody
    get gets getting got make makes making made seem seems appear appears appearing start starts starting started
    begin begins beginning began continue continues continuing continued keep keeps keeping kept go goes going went
    come comes coming came use uses using used try tries trying tried look looks looking looked see seen sees saw
    show shows showing shown depict depicts feature features"""
)
FUNCTION_WORDS = NOUN_OPENERS | OTHER_FUNCTION_WORDS

VERBS = _parse_word_set(
    """add bake bend blend boil bounce break bring build carry catch celebrate chase chat cheer chop clap climb
    collect compete cook crawl cut dance dig dive drag draw drink drive drop eat enter explain fall feed fight fill fix
    float fly fold follow fry gather give grab greet grill hang hide hit hold hug jog juggle jump kick kiss kneel laugh
    lean leap lick lift listen mix move paddle peel perform pick play pour pray prepare pull push put ride run sail sew
    shake shoot shout sing sit ski sleep slice slide smile speak spin spread sprint squat stand stir swim take talk
    teach tell throw tie toss touch turn wait walk wash watch wear whisk wipe write"""
)
IRREGULAR_PAST = _parse_word_set(
    """ate bent broke brought built caught drank drew drove dug fed fell flew fought gave held hid hung knelt leapt
    rode ran sang sat shook shot slept slid spoke spun stood swam taught told took threw wore wrote"""
)
NOUNS_LIKE_VERBS = _parse_word_set(
    """building ceiling clothing crossing drawing dressing earring evening frosting icing lightning morning painting
    pudding railing sibling topping wedding hundred naked sacred"""
)
NOT_ADVERBS = _parse_word_set(
    """assembly belly bubbly bully butterfly curly dragonfly elderly family friendly hilly holly italy jelly lily lovely
    silly supply ugly"""
)

# Every video has a camera, images, a beginning and an end: such words fit any frame and describe none.
PICTURE_WORDS = _parse_word_set(
    """camera cameras shot shots frame frames framing image images picture pictures photo photos photograph clip clips
    video videos footage film recording screen scene scenes view views viewpoint viewpoints perspective
    background foreground backdrop beginning beginnings start end ending moment moments instant
    time times once twice first last next opening closing final whole entire complete still static"""
)

MAX_PHRASE_WORDS = 4
WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
PHRASE_BREAK = re.compile(r"[^\w\s'-]+|\n+|\s['-]+\s|--+")


def _build_third_person(verb: str) -> str:
    """Build the form of an English verb after he, she or it from its base form by rules of spelling, such as goes from
    go. Irregular forms are not known.
    """
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2] not in "aeiou" else f"{verb}s"


VERB_FORMS = VERBS | IRREGULAR_PAST | set(map(_build_third_person, VERBS))


class RuleKeywords:
    """The keyword extractor that needs no model and no download. It takes noun phrases and content verbs of an English
    text by word lists and endings. Other languages are not supported.

    A phrase is a run of words between function words, adverbs and punctuation. A word that looks like a verb is a
    phrase of its own, except after an article, a preposition or a number ("a parked car"). Phrases have at most four
    words. They are in lower case, so that every phrase is encoded once however it was written. They come in the order
    of the text and repeat where the text does. Phrases that only name camera, picture or the course of the video ("the
    last frame", "three times") are left out. The rules know no grammar: an adjective in -ed or -ing that follows
    another adjective becomes a phrase of its own, too.

    >>> RuleKeywords().extract("In the last shot a man rides a red bicycle. Two dogs are running behind him.")
    ['man', 'rides', 'red bicycle', 'two dogs', 'running']
    """

    @property
    def identity(self) -> ModelIdentity:
        """The name of the rules, their version and their language. The version is raised by hand when the rules give
        other keywords.
        """
        return ModelIdentity("reelsieve-keyword-rules", "2", {"language": "en"})

    def extract(self, text: str) -> list[str]:
        """Extract the keywords of an English text, in order and in lower case, with repetitions. Phrases about camera
        and picture are left out; [] for a text without keywords.
        """
        return [phrase for phrase in list_phrases(text) if not _is_about_picture(phrase)]


def list_phrases(text: str) -> list[str]:
    """List the noun phrases and verbs of an English text in order, in lower case. Phrases about camera and picture,
    which `RuleKeywords` leaves out, are included.

    >>> list_phrases("The camera pans over a red box.")
    ['camera pans', 'red box']
    """
    segments = PHRASE_BREAK.split(text.replace("\u2019", "'").lower())
    return [phrase for segment in segments for phrase in _split_phrases(WORD.findall(segment))]


def _is_about_picture(phrase: str) -> bool:
    """Whether a phrase consists of words for camera, picture and time only, possibly with numbers; False for numbers
    only.

    >>> [_is_about_picture(phrase) for phrase in ("whole picture", "three times", "picture book", "three")]
    [True, True, False, False]
    """
    words = _parse_word_set(phrase)
    return words <= PICTURE_WORDS | NUMBERS and not words <= NUMBERS


def _split_phrases(words: Sequence[str]) -> Iterator[str]:
    """Yield the phrases among words in lower case, joined with spaces, in order. No punctuation may separate the words.
    A phrase is a single word that looks like a verb, or up to four consecutive words that are neither verbs nor
    function words.
    """
    run: list[str] = []
    previous = ""
    for word in [*words, ""]:
        is_verb = _is_verb_like(word) and not _is_noun_phrase_opener(previous)
        if run and (len(run) == MAX_PHRASE_WORDS or is_verb or is_function_word(word)):
            yield " ".join(run)
            run = []
        if is_verb:
            yield word
        elif not is_function_word(word):
            run.append(word)
        previous = word


def is_function_word(word: str) -> bool:
    """Whether an English word in lower case carries no content of its own, such as "it's", "don't", "slowly" or "the".
    True for an empty string, and for most words in -ly.
    """
    if not word or word.endswith("n't") or word.partition("'")[0] in FUNCTION_WORDS:
        return True
    return word.endswith("ly") and len(word) > 4 and word not in NOT_ADVERBS


def _is_verb_like(word: str) -> bool:
    """Whether a word in lower case is a known verb form or, by its ending in -ed or -ing, probably is one. False for
    function words and for listed nouns such as building.
    """
    if word in NOUNS_LIKE_VERBS or is_function_word(word):
        return False
    return word in VERB_FORMS or _ends_like_participle(word)


def _ends_like_participle(word: str) -> bool:
    """Whether a word ends in -ing or in -ed, but not in -eed, with a vowel before the ending: "sewing" and "parked" do,
    "string" and "seed" do not. False for a word with other characters than letters.
    """
    stem = word.removesuffix("ing").removesuffix("ed")
    is_other = stem == word or word.endswith("eed") or not word.isalpha()
    return not is_other and any(letter in "aeiouy" for letter in stem)


def _is_noun_phrase_opener(word: str) -> bool:
    """Whether the word after this one belongs to a noun even if it looks like a verb. True for articles, possessives,
    numbers and most prepositions, in lower case.
    """
    return word in NOUN_OPENERS or word in NUMBERS or word.isdigit()


@dataclass(frozen=True, slots=True)
class Keywords:
    """The keywords of one text, in order: as the extractor gave them (`raw`), and after `clean_keywords`, as they are
    scored (`cleaned`).
    """

    raw: tuple[str, ...]
    cleaned: tuple[str, ...]


def extract_keywords(text: str, extractor: KeywordExtractor) -> Keywords:
    """Extract the keywords of a text with an extractor, and clean them as `clean_keywords` does.

    >>> extract_keywords("A dog chases the dog.", RuleKeywords())
    Keywords(raw=('dog', 'chases', 'dog'), cleaned=('dog', 'chases'))
    """
    raw = extractor.extract(text)
    return Keywords(tuple(raw), tuple(clean_keywords(raw)))


def clean_keywords(raw: Sequence[str], *, dedup: bool = True) -> list[str]:
    """Split keywords at commas and newlines, strip them and drop empty ones: a list in their order. With `dedup`, only
    the first of keywords that differ in nothing but upper and lower case stays.

    Repetitions would change the weight of a keyword in precision and raise the factor ln(n + 1). `dedup=False` keeps
    them, as the authors' code does.

    >>> clean_keywords(["red car, Dog", " dog\\nman,"])
    ['red car', 'Dog', 'man']
    """
    parts = [part.strip() for item in raw for part in item.replace("\n", ",").split(",")]
    kept = [part for part in parts if part]
    if not dedup:
        return kept
    first: dict[str, str] = {}
    for keyword in kept:
        first.setdefault(keyword.casefold(), keyword)
    return list(first.values())
