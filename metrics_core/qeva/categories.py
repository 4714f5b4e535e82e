"""The ten categories of factuality questions (paper 3.1; spec 3.2), told by the words of a statement."""

from __future__ import annotations

import re

from metrics_core.models.word_tokenizer import split_words

CATEGORIES = (
    "entities",
    "scene",
    "actions",
    "attributes",
    "counting",
    "spatial",
    "temporal",
    "colours",
    "emotion",
    "factual",
)


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS = {
    "scene": _listed(
        "scene setting background backdrop room kitchen bathroom bedroom house home street road city town park garden "
        "yard field beach sea lake river pool forest mountain mountains hill snow gym court stage studio office school "
        "store shop restaurant bar outdoors outside indoors inside sky desert stadium arena track area place landscape"
    ),
    "attributes": _listed(
        "big large huge small tiny little tall short long wide narrow thick thin old young new round square flat steep "
        "wooden metal plastic glass wet dry clean dirty dark bright shiny hot cold fast slow quickly heavy light "
        "wearing dressed wears striped plain bald bearded blurry empty full open closed smooth rough"
    ),
    "counting": _listed(
        "one two three four five six seven eight nine ten eleven twelve once twice times several many few pair dozen "
        "couple both single double"
    ),
    "spatial": _listed(
        "left right top bottom upper lower above below under underneath behind beside near between front middle centre "
        "center corner side edge next inside outside around across through toward towards foreground opposite upward "
        "downward up down"
    ),
    "temporal": _listed(
        "before after then first second finally last later next while during until begin begins beginning start starts "
        "starting end ends ending meanwhile again still afterwards eventually soon suddenly whole always already"
    ),
    "colours": _listed(
        "black white red green blue yellow orange purple violet pink brown gray grey tan beige maroon teal turquoise "
        "silver gold golden blond blonde magenta cyan navy olive lavender crimson colour color coloured colored"
    ),
    "emotion": _listed(
        "happy happily sad sadly angry angrily smile smiles smiling laugh laughs laughing cry cries crying excited "
        "excitement scared afraid fear surprised nervous proud upset calm worried bored tired cheer cheers cheering "
        "celebrate celebrates celebrating enjoy enjoys enjoying love loves frustrated joy fun"
    ),
    "entities": _listed(
        "man men woman women boy boys girl girls child children kid kids baby person people lady guy guys crowd group "
        "team player players dog dogs cat cats horse horses animal animals car cars bus truck bike boat ball camera"
    ),
}
_ACTION = re.compile(r"\b(?:is|are|was|were|be|been|being|starts?|begins?|keeps?) \w+ing\b|\b[a-z]{3,}(?:es|s|ed)\b")


def categories(statement: str) -> tuple[str, ...]:
    """The categories that the words of a statement speak of, in the order of CATEGORIES; "factual" where none is named.

    A name inside the sentence speaks of entities, a digit of counting, a verb form of actions.

    >>> categories("Two red cars stop behind a bus in Rome."), categories("It rains.")
    (('entities', 'actions', 'counting', 'spatial', 'colours'), ('actions',))
    >>> categories("Hope remained elusive to him.")
    ('actions',)
    """
    words = frozenset(split_words(statement))
    named = {name for name, listed in WORDS.items() if words & listed}
    if any(word.isdigit() for word in words):
        named.add("counting")
    if re.search(r"(?<=[a-z,] )[A-Z][a-z]+", statement):
        named.add("entities")
    if _ACTION.search(statement):
        named.add("actions")
    return tuple(name for name in CATEGORIES if name in named) or ("factual",)
