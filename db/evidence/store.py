"""Stores of evidence by key: tables of Postgres, and a dict for work without a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy.engine import Engine

from db.evidence.models import find_model_id, register_model

K = TypeVar("K")
V = TypeVar("V")
# Values in memory while a store looks for missing ones.
_KEYS_AT_A_TIME = 10_000


class Store(ABC, Generic[K, V]):
    """Values by key, kept for one owner: a model, or a scorer. A key has the digest of what its value was made from, if
    that can change, so that an outdated value is not found.
    """

    @abstractmethod
    def load(self, keys: Collection[K]) -> Mapping[K, V]:
        """Return the values that are stored, by key; keys without one are left out."""

    @abstractmethod
    def save(self, values: Mapping[K, V]) -> None:
        """Store these values at once, all or none. A stored value that is as good may stay."""

    def list_missing(self, keys: Collection[K], is_final: Callable[[V], bool]) -> list[K]:
        """Return, in their order, the keys without a value, and those whose value is not final by `is_final`."""
        missing, rest = list[K](), iter(keys)
        while some := list(islice(rest, _KEYS_AT_A_TIME)):
            stored = self.load(some)
            missing += [key for key in some if key not in stored or not is_final(stored[key])]
        return missing


class DictStore(Store[K, V]):
    """A store in memory.

    >>> store = DictStore[str, int]()
    >>> store.save({"a": 1, "b": 2})
    >>> store.load(["a", "c"]), store.list_missing(["a", "b", "c"], lambda value: value > 1)
    ({'a': 1}, ['a', 'c'])
    """

    def __init__(self) -> None:
        self._values: dict[K, V] = {}

    def load(self, keys: Collection[K]) -> Mapping[K, V]:
        """Return the values that are stored, by key; keys without one are left out."""
        return {key: self._values[key] for key in keys if key in self._values}

    def save(self, values: Mapping[K, V]) -> None:
        """Store these values, in place of others with their keys."""
        self._values |= values


@dataclass(frozen=True, slots=True)
class Table(Generic[K, V]):
    """Functions that read and write values in tables of Postgres. All take the engine and the owner's id in table
    `model` or `scorer`, then: load, the keys; save, the run's id and the values by key, stored in one transaction;
    list_missing, the keys, of which it returns those without a final value. Without it, values are loaded and checked.
    """

    load: Callable[[Engine, int, Collection[K]], Mapping[K, V]]
    save: Callable[[Engine, int, str, Mapping[K, V]], object]
    list_missing: Callable[[Engine, int, Collection[K]], list[K]] | None = None


class PostgresStore(Store[K, V]):
    """A store in tables of Postgres. owner: the identity of the model that gives the values, which is registered when
    the first ones are saved; or the id of a scorer. run_id: the run that values are stored under.
    """

    def __init__(self, engine: Engine, table: Table[K, V], owner: Mapping[str, Any] | int, run_id: str = "") -> None:
        self._engine = engine
        self._table = table
        self._identity = {} if isinstance(owner, int) else owner
        self._owner_id = owner if isinstance(owner, int) else None
        self._run_id = run_id

    def load(self, keys: Collection[K]) -> Mapping[K, V]:
        """Return the values that are stored, by key; keys without one are left out."""
        owner_id = self._find_owner() if keys else None
        return {} if owner_id is None else self._table.load(self._engine, owner_id, keys)

    def save(self, values: Mapping[K, V]) -> None:
        """Store these values in one transaction, by the rules of the table for values that are stored already."""
        if self._owner_id is None:
            with self._engine.begin() as connection:
                self._owner_id = register_model(connection, self._identity)
        self._table.save(self._engine, self._owner_id, self._run_id, values)

    def list_missing(self, keys: Collection[K], is_final: Callable[[V], bool]) -> list[K]:
        """Return, in their order, the keys without a value, and those whose value is not final by `is_final`."""
        if self._table.list_missing is None or not keys:
            return super().list_missing(keys, is_final)
        owner_id = self._find_owner()
        return list(keys) if owner_id is None else self._table.list_missing(self._engine, owner_id, keys)

    def _find_owner(self) -> int | None:
        if self._owner_id is None:
            with self._engine.connect() as connection:
                self._owner_id = find_model_id(connection, self._identity)
        return self._owner_id
