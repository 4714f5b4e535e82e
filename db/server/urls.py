"""URLs of Postgres servers: parsing them, showing them without passwords, and other databases on the same server."""

from __future__ import annotations

import re

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

CURATION = "curation"
DAGSTER = "dagster"


class DatabaseUnavailable(RuntimeError):
    """Raised when there is no usable Postgres server; the message names it and the remedy."""

    plain = True


def parse_url(text: str) -> URL:
    """Return a Postgres URL in any common spelling as a URL for the psycopg 3 driver; without a database name it gets
    "curation". Raises DatabaseUnavailable for any other text, and for Dagster's database.

    libpq also takes user, password and database from the query. They are moved to their usual places, where
    `format_url` hides the password and `build_sibling_url` exchanges the database. A server that asks for the password
    in clear text or as MD5 gets none, unless the query has `require_auth`.
    """
    try:
        url = make_url(re.sub("^postgres(?=:|[+])", "postgresql", text.strip()))
    except (ArgumentError, ValueError):  # the second for a port that is no number
        raise DatabaseUnavailable(
            "CURATION_DB_URL is not a URL: write postgresql://user:password@host:5432/curation, "
            "and %40 for an @ in the password"
        ) from None
    if url.get_backend_name() != "postgresql":
        raise DatabaseUnavailable(
            f"CURATION_DB_URL names a {url.get_backend_name()} database: Reelsieve needs Postgres with pgvector"
        )
    for name, place in {"user": "username", "password": "password", "dbname": "database"}.items():
        if values := url.normalized_query.get(name):
            url = url.difference_update_query([name]).set(**{place: values[-1]})  # type: ignore[arg-type]  # all are str
    if url.database == DAGSTER:
        raise DatabaseUnavailable(f"CURATION_DB_URL names database {DAGSTER}, which is Dagster's own: name another one")
    if "require_auth" not in url.query:
        url = url.update_query_dict({"require_auth": _choose_auth(url)})
    return url.set(drivername="postgresql+psycopg", database=url.database or CURATION)


def format_user(url: URL) -> str:
    """Return the user of a database URL for a message: `this user` where the URL leaves the name to libpq."""
    return url.username or "this user"


def _choose_auth(url: URL) -> str:
    """Return how the server may ask who we are, if the URL does not state it: on a socket it may know the user
    (peer).
    """
    return "scram-sha-256,none" if _is_socket(url) else "scram-sha-256"


def _is_socket(url: URL) -> bool:
    host = url.host or url.query.get("host", "/")
    return isinstance(host, str) and host.startswith(("/", "@"))


def convert_to_psql_url(url: URL) -> URL:
    """Return the URL as people and psql write it, password included, without the parameter `require_auth` that
    `parse_url` added. An older psql does not know it.
    """
    # URLs of the embedded server's socket have `none`.
    is_usual = url.query.get("require_auth") in (_choose_auth(url), "none" if _is_socket(url) else None)
    return url.difference_update_query(["require_auth"] if is_usual else []).set(drivername="postgresql")


def format_url(url: URL) -> str:
    """Return the URL as text for people, without any secret: the password is shown as ***, and that of a TLS key is
    left out.
    """
    secrets = [name for name in url.query if "password" in name]
    return convert_to_psql_url(url).difference_update_query(secrets).render_as_string(hide_password=True)


def build_sibling_url(url: URL, database: str) -> URL:
    """Return the same URL with another database name, for a database on the same server."""
    return url.set(database=database)


def format_dagster_url(url: URL) -> str:
    """Return the URL of Dagster's database on the same server as text, password included, for dagster-postgres."""
    return format_psycopg2_url(build_sibling_url(url, DAGSTER))


def format_psycopg2_url(url: URL) -> str:
    """Return the URL as text with the psycopg2 driver, which dagster-postgres needs, password included."""
    return url.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
