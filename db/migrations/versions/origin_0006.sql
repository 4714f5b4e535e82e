-- The origin of videos, which manifests could only give as own fields before. Values that ingest would accept now move to
-- the columns; others stay own fields, and ingest refuses them from now on.

ALTER TABLE video ADD COLUMN licence TEXT, ADD COLUMN source_url TEXT, ADD COLUMN collected_at TEXT,
    ADD COLUMN opt_out BOOLEAN;

ALTER TABLE selection_item ADD COLUMN licence TEXT, ADD COLUMN source_url TEXT;

-- Nothing that a score depends on changes, and in an empty database the functions of the triggers are missing.
ALTER TABLE video DISABLE TRIGGER USER;

UPDATE video
SET licence = extra ->> 'licence', extra = nullif(extra - 'licence', '{}')
WHERE jsonb_typeof(extra -> 'licence') = 'string' AND octet_length(extra ->> 'licence') <= 512;

UPDATE video
SET source_url = extra ->> 'source_url', extra = nullif(extra - 'source_url', '{}')
WHERE jsonb_typeof(extra -> 'source_url') = 'string' AND extra ->> 'source_url' ~* '^https?://[^[:space:]]+$'
  AND length(extra ->> 'source_url') <= 4096;

UPDATE video
SET collected_at = extra ->> 'collected_at', extra = nullif(extra - 'collected_at', '{}')
WHERE jsonb_typeof(extra -> 'collected_at') = 'string'
  AND extra ->> 'collected_at' ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)';

UPDATE video
SET opt_out = CAST(extra ->> 'opt_out' AS boolean), extra = nullif(extra - 'opt_out', '{}')
WHERE jsonb_typeof(extra -> 'opt_out') = 'boolean';

ALTER TABLE video ENABLE TRIGGER USER;
