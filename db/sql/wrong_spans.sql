-- The words of captions that people marked as wrong, in present and older texts. Those in a
-- planted caption are left out, unless its text is the sample's by now.
CREATE VIEW wrong_spans AS
SELECT d.name AS dataset,
       s.sample_id,
       s.sample,
       s.system,
       w.rater,
       w.start_at,
       w.end_at,
       w.words,
       w.text_sha256 <> s.text_sha256 AS is_stale,
       w.marked_at
  FROM wrong_span w
  JOIN sample s USING (sample_id)
  JOIN dataset d USING (dataset_id)
 WHERE NOT w.is_planted OR w.text_sha256 = s.text_sha256;

COMMENT ON VIEW wrong_spans IS 'One row per words of a caption that a person marked as wrong; those in a planted caption are left out, unless the sample has that text now.';
COMMENT ON COLUMN wrong_spans.rater IS 'Person who marked the words.';
COMMENT ON COLUMN wrong_spans.words IS 'The marked words.';
COMMENT ON COLUMN wrong_spans.is_stale IS 'Whether the text has changed since, so that the marked words do not count.';
