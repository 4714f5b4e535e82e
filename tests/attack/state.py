"""All that a statement or a restore could change in a database, as digests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg
from sqlalchemy.engine import URL

from db.server.engine import open_connection

_OURS = "nspname = 'public'"
# SQL of rows, by what they are. Numbers that Postgres gives to its objects differ between equal databases.
OF_DATABASE = {
    "relations": f"SELECT nspname, relname, relkind, relacl::text, relrowsecurity, pg_get_userbyid(relowner) "
    f"FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE {_OURS}",
    "columns": "SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, "
    "pg_get_expr(adbin, adrelid) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid "
    "JOIN pg_namespace n ON n.oid = relnamespace LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) "
    f"WHERE attnum > 0 AND NOT attisdropped AND relkind NOT IN ('i', 'I') AND {_OURS}",
    "constraints": "SELECT conrelid::regclass, conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint",
    "indexes": "SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes",
    "triggers": "SELECT tgrelid::regclass, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "views": "SELECT schemaname, viewname, definition FROM pg_views",
    "rules": "SELECT tablename, rulename, definition FROM pg_rules",
    "policies": "SELECT tablename, policyname FROM pg_policies",
    "functions": "SELECT oid::regprocedure, md5(prosrc), prosecdef, proacl::text FROM pg_proc",
    "types": f"SELECT typname, typtype FROM pg_type JOIN pg_namespace n ON n.oid = typnamespace WHERE {_OURS}",
    "casts": "SELECT castsource::regtype, casttarget::regtype FROM pg_cast",
    "operators": "SELECT oid::regoperator FROM pg_operator",
    "statistics": "SELECT stxname FROM pg_statistic_ext",
    "schemas": "SELECT nspname, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'",
    "extensions": "SELECT extname, extversion FROM pg_extension",
    "languages": "SELECT lanname FROM pg_language",
    "event triggers": "SELECT evtname FROM pg_event_trigger",
    "foreign servers": "SELECT srvname FROM pg_foreign_server UNION ALL SELECT fdwname FROM pg_foreign_data_wrapper",
    "publications": "SELECT pubname FROM pg_publication",
    "large objects": "SELECT oid, lomowner FROM pg_largeobject_metadata",
    "default rights": "SELECT pg_get_userbyid(defaclrole), defaclobjtype, defaclacl::text FROM pg_default_acl",
    "comments": "SELECT relname, attname, description FROM pg_description d JOIN pg_class c ON c.oid = objoid "
    "LEFT JOIN pg_attribute ON (attrelid, attnum) = (objoid, objsubid) "
    f"JOIN pg_namespace n ON n.oid = relnamespace WHERE {_OURS}",
    "sequences": "SELECT schemaname, sequencename, last_value FROM pg_sequences",
    "rights on the database": "SELECT datacl::text FROM pg_database WHERE datname = current_database()",
}
_OF_SERVER = {
    "roles": "SELECT * FROM pg_authid",
    "members": "SELECT roleid::regrole, member::regrole FROM pg_auth_members",
    "settings of roles": "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting",
    "settings": "SELECT name, reset_val FROM pg_settings",
    "databases": "SELECT datname FROM pg_database",
    "subscriptions": "SELECT subname FROM pg_subscription",
    "replication slots": "SELECT slot_name FROM pg_replication_slots",
}
_TABLES = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public'"


def state_of_database(url: URL, only: Collection[str] | None = None) -> dict[str, str]:
    """Digests of the rows of every table, and of every object; or only of those kinds of objects."""
    with open_connection(url, autocommit=True) as connection:
        if only is not None:
            return _digests(connection, {name: OF_DATABASE[name] for name in only})
        tables = [name for (name,) in connection.execute(_TABLES.encode())]
        return _digests(connection, {**OF_DATABASE, **{f"rows of {name}": f"SELECT * FROM {name}" for name in tables}})


def state_of_server(url: URL) -> dict[str, str]:
    """Digests of what all databases of a server share."""
    with open_connection(url, autocommit=True) as connection:
        return _digests(connection, _OF_SERVER)


def changed(found: dict[str, str], before: dict[str, str]) -> list[str]:
    """What differs."""
    return sorted(name for name in found.keys() | before.keys() if found.get(name) != before.get(name))


def _digests(connection: psycopg.Connection[Any], queries: dict[str, str]) -> dict[str, str]:
    digests = {}
    for name, query in queries.items():
        digest = f"SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM ({query}) t"
        row = connection.execute(digest.encode()).fetchone()
        assert row is not None
        digests[name] = str(row[0])
    return digests
