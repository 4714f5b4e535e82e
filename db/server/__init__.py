"""Postgres servers: starting and reaching them, bulk reads and writes, locks, back-ups, and the read-only role."""
