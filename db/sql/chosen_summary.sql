-- Of the rows in temporary table chosen: how many, of how many, the worst value, whose, and a hash of which they are and what they scored.
SELECT count(*) AS n,
       min(n_eligible) AS n_eligible,
       min(value) AS cutoff,
       min(scorer) AS scorer,
       encode(
           sha256(
               string_agg(
                   convert_to(concat_ws(E'\t', row->>'kind', row->>'sample', value::text) || E'\n', 'UTF8'),
                   '' ORDER BY rank)),
           'hex') AS score_hash
FROM chosen
