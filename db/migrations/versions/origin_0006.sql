-- The origin of videos, which manifests could only give as own fields before. Values that ingest would accept now move to
-- the columns; others stay own fields, and ingest refuses them from now on.

ALTER TABLE video ADD COLUMN licence TEXT, ADD COLUMN source_url TEXT, ADD COLUMN collected_at TEXT,
    ADD COLUMN opt_out BOOLEAN;

ALTER TABLE selection_item ADD COLUMN licence TEXT, ADD COLUMN source_url TEXT;

-- Whether ingest would accept a date; Postgres reads more than ISO 8601, so only its calendar counts.
CREATE FUNCTION pg_temp.is_iso_date(value TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    PERFORM CAST(left(value, 10) AS date);
    RETURN value ~ ('^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9]([.]([0-9]{3}){1,2})?)?)?'
                    '(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?$');
EXCEPTION WHEN data_exception THEN
    RETURN false;
END
$$;

-- Nothing that a score depends on changes, and in an empty database the functions of the triggers are missing.
ALTER TABLE video DISABLE TRIGGER USER;

UPDATE video
SET licence = extra ->> 'licence', extra = nullif(extra - 'licence', '{}')
WHERE jsonb_typeof(extra -> 'licence') = 'string' AND octet_length(extra ->> 'licence') <= 512
  AND extra ->> 'licence' ~ '[^[:space:]]';

UPDATE video
SET source_url = extra ->> 'source_url', extra = nullif(extra - 'source_url', '{}')
WHERE jsonb_typeof(extra -> 'source_url') = 'string' AND extra ->> 'source_url' ~* '^https?://[^[:space:]]+$'
  AND length(extra ->> 'source_url') <= 4096
  -- A user or a password; one that holds a slash, too.
  AND extra ->> 'source_url' !~ '://([^/?#]*@|[^/?#]*:(?![0-9]{1,5}/)[^?#]*@)';

UPDATE video
SET collected_at = extra ->> 'collected_at', extra = nullif(extra - 'collected_at', '{}')
WHERE jsonb_typeof(extra -> 'collected_at') = 'string' AND pg_temp.is_iso_date(extra ->> 'collected_at');

UPDATE video
SET opt_out = CAST(extra ->> 'opt_out' AS boolean), extra = nullif(extra - 'opt_out', '{}')
WHERE jsonb_typeof(extra -> 'opt_out') = 'boolean';

ALTER TABLE video ENABLE TRIGGER USER;

DROP FUNCTION pg_temp.is_iso_date(TEXT);

-- What a selection froze had no origin yet: rows get that of their video, where it still exists.
UPDATE selection_item item
SET licence = video.licence, source_url = video.source_url
FROM selection
JOIN video ON video.dataset_id = selection.dataset_id
WHERE selection.selection_id = item.selection_id AND video.key = item.video
  AND (video.licence IS NOT NULL OR video.source_url IS NOT NULL);
