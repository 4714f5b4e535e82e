"""All tables, in the order of the page."""

from __future__ import annotations

from benchmarks.papers import (
    ecs,
    ecs_disagreements,
    ecs_variants,
    evqa,
    qeva,
    vatex,
    vcs_authors,
    vcs_corruption_tables,
)
from benchmarks.papers.recipes import Recipe

RECIPES: tuple[Recipe, ...] = (
    *vcs_corruption_tables.RECIPES,
    *vatex.RECIPES,
    *vcs_authors.RECIPES,
    *ecs.RECIPES,
    *ecs_variants.RECIPES,
    *ecs_disagreements.RECIPES,
    *evqa.RECIPES,
    *qeva.RECIPES,
)
