-- One row per table, view and column with its comment.
CREATE VIEW dictionary AS
SELECT CAST(c.relname AS text) AS relation,
       CASE c.relkind WHEN 'v' THEN 'view' ELSE 'table' END AS what,
       CAST(a.attname AS text) AS column_name,
       format_type(a.atttypid, a.atttypmod) AS type,
       d.description AS meaning
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT CAST(0 AS smallint) AS attnum, CAST(NULL AS name) AS attname, CAST(NULL AS oid) AS atttypid,
                           CAST(NULL AS integer) AS atttypmod
                    UNION ALL
                    SELECT attnum, attname, atttypid, atttypmod
                    FROM pg_attribute
                    WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) a
LEFT JOIN pg_description d
       ON d.objoid = c.oid AND d.classoid = CAST('pg_class' AS regclass) AND d.objsubid = a.attnum
WHERE n.nspname = 'public'
  AND c.relkind IN ('r', 'v')
ORDER BY c.relkind DESC, relation, a.attnum;

COMMENT ON VIEW dictionary IS 'One row per table, view and column with its meaning. Rows without a column describe the table itself.';
COMMENT ON COLUMN dictionary.relation IS 'Name of the table or view.';
COMMENT ON COLUMN dictionary.what IS 'table, or view.';
COMMENT ON COLUMN dictionary.column_name IS 'Name of the column; NULL for the table or view itself.';
COMMENT ON COLUMN dictionary.type IS 'Type of the column.';
COMMENT ON COLUMN dictionary.meaning IS 'Meaning of the table, view or column.';
