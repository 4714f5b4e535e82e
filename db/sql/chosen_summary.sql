-- Of the rows in temporary table chosen: how many, the worst value, and a hash of which they are and what they scored.
SELECT count(*) AS n,
       min(value) AS cutoff,
       encode(
           sha256(
               string_agg(
                   convert_to(concat_ws(E'\t', row->>'kind', row->>'sample', value::text) || E'\n', 'UTF8'),
                   '' ORDER BY rank)),
           'hex') AS score_hash
FROM chosen
