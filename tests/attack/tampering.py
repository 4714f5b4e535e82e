"""Ways to tamper with a back-up: with its bytes, and with the databases that it is made of."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Literal
from zipfile import ZipFile

from sqlalchemy.engine import URL

from db.server.dump_rows import write_rows
from db.server.engine import open_connection
from db.server.urls import CURATION, DAGSTER, build_sibling_url

# What a restore must make of it. "either": refuse it, or restore what was backed up. "forged": the hashes are right, so
# rows may be others, but nothing else.
Outcome = Literal["refused", "whole", "either", "forged"]
PASSPORT, FILES = "backup.json", (f"{CURATION}.zip", f"{DAGSTER}.zip")

_HARMLESS = "CREATE FUNCTION run() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$"
_PROGRAM = "BEGIN COPY (SELECT 1) TO PROGRAM 'touch {canary}';"
_RUNS = _HARMLESS.replace("CREATE", "CREATE OR REPLACE").replace("BEGIN", _PROGRAM)
_ON_ROWS = "CREATE FUNCTION run_on() RETURNS trigger LANGUAGE plpgsql AS $$ " + _PROGRAM + " RETURN NEW; END $$"
_ON_DDL = "CREATE FUNCTION run_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ " + _PROGRAM + " END $$"
_FIRES = "CREATE EVENT TRIGGER mine ON ddl_command_end EXECUTE FUNCTION run_ddl()"
# Objects that no Reelsieve made: of each, what is run in the database that is backed up. Most of them would run a
# program as the superuser where they are restored with the rows, or when rows are written later.
OBJECTS: Mapping[str, list[str]] = {
    "a check": [_HARMLESS, "ALTER TABLE dataset ADD CONSTRAINT mine CHECK (run())", _RUNS],
    "a trigger": [_ON_ROWS, "CREATE TRIGGER mine BEFORE INSERT ON dataset FOR EACH ROW EXECUTE FUNCTION run_on()"],
    "a rule": [_HARMLESS, "CREATE RULE mine AS ON INSERT TO rating DO ALSO SELECT run()", _RUNS],
    "an index": [
        _HARMLESS,
        "CREATE TABLE mine_1 AS SELECT 1 AS a",
        "CREATE INDEX mine_index ON mine_1 ((run()))",
        _RUNS,
    ],
    "a materialized view": [_HARMLESS, "CREATE MATERIALIZED VIEW mine_2 AS SELECT run()", _RUNS],
    "a view": [_HARMLESS, "CREATE VIEW mine_3 AS SELECT run()", _RUNS],
    "a domain": [
        _HARMLESS,
        "CREATE DOMAIN mine_4 AS int CHECK (run())",
        "CREATE TABLE mine_5 (a mine_4)",
        "INSERT INTO mine_5 VALUES (1)",
        _RUNS,
    ],
    "a policy": [_HARMLESS, "CREATE POLICY mine ON score USING (run())", "ALTER TABLE score FORCE ROW LEVEL SECURITY"],
    "a foreign server": [
        "CREATE FOREIGN DATA WRAPPER mine",
        "CREATE SERVER mine FOREIGN DATA WRAPPER mine",
        "CREATE FOREIGN TABLE mine_6 (a int) SERVER mine",
    ],
    "a large object": ["SELECT lo_from_bytea(4711, 'x')"],
    "another owner": ["CREATE TABLE mine_7 AS SELECT 1 AS a", "ALTER TABLE mine_7 OWNER TO pg_database_owner"],
    "a child": ["CREATE TABLE mine_8 () INHERITS (rating)"],
    "a cast": [
        "CREATE FUNCTION cast_8(dataset) RETURNS text LANGUAGE sql AS 'SELECT 1::text'",
        "CREATE CAST (dataset AS text) WITH FUNCTION cast_8",
    ],
    "rights": [
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
    ],
    "a schema": ["CREATE SCHEMA mine", "CREATE TABLE mine.score AS SELECT * FROM score"],
    "a publication": ["CREATE PUBLICATION mine FOR ALL TABLES"],
    "an event trigger": [_ON_DDL, _FIRES],
}
# What no Reelsieve has written: a restore must refuse it.
SPOILT: Mapping[str, tuple[str, list[str]]] = {
    "rows without their parents": (CURATION, ["SET session_replication_role = replica", "DELETE FROM video"]),
    "rows twice": (
        CURATION,
        ["ALTER TABLE score DROP CONSTRAINT pk_score", "INSERT INTO score SELECT * FROM score"],
    ),
    "another column": (CURATION, ["ALTER TABLE dataset RENAME name TO title"]),
    "a column more": (CURATION, [_HARMLESS, "ALTER TABLE rating ADD mine boolean DEFAULT run()", _RUNS]),
    "a table less": (CURATION, ["DROP TABLE rating CASCADE"]),
    "another revision": (CURATION, ["UPDATE alembic_version SET version_num = '0001'"]),
    "no revision": (CURATION, ["DELETE FROM alembic_version"]),
    "no table of runs": (DAGSTER, ["DROP TABLE runs CASCADE"]),
}


class Forger:
    """Makes back-ups that were tampered with, of a right one and of the databases `source_...` that it was made of."""

    def __init__(self, url: URL, right: Path, canary: Path, random: Random) -> None:
        """canary: a file that exists as soon as anything of a back-up was run."""
        self._url, self._right, self.canary, self._random = url, right, canary, random
        self.ways: list[tuple[str, Callable[[Path], Outcome]]] = [
            ("a byte", self._flip),
            ("the end", self._cut),
            ("files exchanged", self._swap),
            ("objects of all kinds", lambda folder: self._objects(folder, *OBJECTS)),
            ("files exchanged with their hashes", self._swap_with_hashes),
            ("a program in place of rows", self._program),
            ("a list of tables that is none", self._content),
            ("a file that is none", self._no_file),
            ("the passport", self._passport),
            ("the revision", self._revision),
            ("a byte, with its hash", self._flip_with_hash),
            ("the end, with its hash", self._cut_with_hash),
            ("one file twice", self._double),
            *((kind, self._spoiling(*spoilt)) for kind, spoilt in SPOILT.items()),
            *((kind, self._object(kind)) for kind in OBJECTS),
        ]

    def forge(self, folder: Path, number: int) -> tuple[str, Outcome]:
        """Make the folder in one of the ways, which take turns; what was done, and what a restore must make of it."""
        kind, way = self.ways[number % len(self.ways)]
        shutil.copytree(self._right, folder)
        return kind, way(folder)

    def _flip(self, folder: Path) -> Outcome:
        file = folder / self._random.choice((PASSPORT, *FILES))
        content = bytearray(file.read_bytes())
        content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
        file.write_bytes(content)
        # A space of the passport may be another one.
        return "either" if file.name == PASSPORT else "refused"

    def _cut(self, folder: Path) -> Outcome:
        file = folder / self._random.choice(FILES)
        size = file.stat().st_size
        if self._random.random() < 0.2:
            file.write_bytes(file.read_bytes() + b"more")
        else:
            os.truncate(file, self._random.randrange(size))
        return "refused"

    def _swap(self, folder: Path) -> Outcome:
        one, other = (folder / name for name in FILES)
        one.rename(folder / "aside")
        other.rename(one)
        (folder / "aside").rename(other)
        return "refused"

    def _swap_with_hashes(self, folder: Path) -> Outcome:
        self._swap(folder)
        return self._mended(folder, "refused")

    def _double(self, folder: Path) -> Outcome:
        one, other = self._random.sample(FILES, 2)
        shutil.copyfile(folder / one, folder / other)
        return self._mended(folder, "refused")

    def _no_file(self, folder: Path) -> Outcome:
        file = folder / self._random.choice((PASSPORT, *FILES))
        file.unlink()
        match self._random.randrange(3):
            case 0:
                file.mkdir()
            case 1 if file.name != PASSPORT:
                os.mkfifo(file)
        return "refused"

    def _passport(self, folder: Path) -> Outcome:
        text = (folder / PASSPORT).read_text()
        others = ["[" * 100_000, "", "{}", "[]", "\0", '{"format": 3}', text.replace('"files"', '"file"')]
        others += [text[: self._random.randrange(len(text))], text.replace("sha", ""), text.replace("3", "2", 1)]
        (folder / PASSPORT).write_text(self._random.choice(others))
        return "refused"

    def _revision(self, folder: Path) -> Outcome:
        others = ["0018", "0001", "base", "head", "0018:0017", "-1", "+1", "", "0018 ", "00181", "' OR true", "\x1b"]
        return self._mended(folder, "refused", revision=self._random.choice(others))

    def _flip_with_hash(self, folder: Path) -> Outcome:
        file = folder / self._random.choice(FILES)
        content = bytearray(file.read_bytes())
        for _ in range(self._random.choice([1, 1, 10, 100])):
            content[self._random.randrange(len(content))] = self._random.randrange(256)
        file.write_bytes(content)
        return self._mended(folder, "forged")

    def _cut_with_hash(self, folder: Path) -> Outcome:
        file = folder / self._random.choice(FILES)
        os.truncate(file, self._random.randrange(file.stat().st_size))
        return self._mended(folder, "refused")

    def _program(self, folder: Path) -> Outcome:
        file = folder / FILES[0]
        with ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        content = json.loads(members["content.json"])
        program = f"FROM PROGRAM 'touch {self.canary}'"
        match self._random.randrange(4):
            case 0:
                content["tables"][f'dataset" (name) {program}; --'] = content["tables"].pop("dataset")
            case 1:
                content["tables"]["dataset"][-1] = f'name") {program}; --'
            case 2:
                content["sequences"] = {f"x'); COPY public.dataset (name) {program}; --": 1}
            case _:
                members["dataset"] = b"\\.\nCOPY public.dataset (name) %b;\n" % program.encode() + members["dataset"]
        with ZipFile(file, "w") as archive:
            for name, rows in {**members, "content.json": json.dumps(content).encode()}.items():
                archive.writestr(name, rows)
        return self._mended(folder, "forged")

    def _content(self, folder: Path) -> Outcome:
        others = [
            "[" * 100_000,
            "",
            "{}",
            "[]",
            "null",
            '{"tables": {}}',
            '{"tables": [], "sequences": {}}',
            " " * (1 << 25),
        ]
        others += ['{"tables": {"dataset": 1}, "sequences": {}}', '{"tables": {}, "sequences": {"\\ud800": 1}}']
        others += ['{"tables": {"\\ud800\\u001b": []}, "sequences": {}}', '{"tables": {"sample": []}, "sequences": {}}']
        file = folder / self._random.choice(FILES)
        with ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with ZipFile(file, "w") as archive:
            for name, rows in {**members, "content.json": self._random.choice(others).encode()}.items():
                archive.writestr(name, rows)
        return self._mended(folder, "forged" if file.name == FILES[1] else "refused")

    def _object(self, kind: str) -> Callable[[Path], Outcome]:
        return lambda folder: self._objects(folder, kind)

    def _objects(self, folder: Path, *kinds: str) -> Outcome:
        statements = dict.fromkeys(statement for kind in kinds for statement in OBJECTS[kind])
        last = [statement for statement in (_RUNS, _ON_DDL, _FIRES) if statements.pop(statement, 0) is None]
        self._dump(folder, CURATION, [*statements, *last])
        return self._mended(folder, "whole")

    def _spoiling(self, database: str, statements: list[str]) -> Callable[[Path], Outcome]:
        def spoil(folder: Path) -> Outcome:
            self._dump(folder, database, statements)
            return self._mended(folder, "refused")

        return spoil

    def _dump(self, folder: Path, database: str, statements: list[str]) -> None:
        """Put a dump of the database after these statements in place of the right one."""
        server, spoilt = build_sibling_url(self._url, "postgres"), build_sibling_url(self._url, "spoilt")
        with open_connection(server, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS spoilt WITH (FORCE)")
            connection.execute(f"CREATE DATABASE spoilt TEMPLATE source_{database}".encode())
        with open_connection(spoilt, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.replace("{canary}", str(self.canary)).encode())
        (folder / f"{database}.zip").unlink()
        with open_connection(spoilt) as connection:
            write_rows(connection, folder / f"{database}.zip")
        assert not self.canary.exists(), "a program was run before there was a back-up"
        with open_connection(server, autocommit=True) as connection:
            connection.execute("DROP DATABASE spoilt WITH (FORCE)")

    @staticmethod
    def _mended(folder: Path, outcome: Outcome, **said: Any) -> Outcome:
        """The outcome, with the hashes of the files as they are now and whatever else the passport is to say."""
        passport = json.loads((folder / PASSPORT).read_text())
        contents = {name: (folder / name).read_bytes() for name in FILES}
        marks = {name: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in contents.items()}
        (folder / PASSPORT).write_text(json.dumps({**passport, "files": marks, **said}))
        return outcome
