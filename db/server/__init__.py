"""The Postgres servers: how they are started, reached, read, backed up, and who may do what."""
