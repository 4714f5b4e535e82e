-- When ratings were stored, which says whose came first, and when a text changed that had an answer.

ALTER TABLE rating ADD COLUMN stored_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL;

ALTER TABLE sample ADD COLUMN changed_at TIMESTAMP WITH TIME ZONE;

CREATE FUNCTION note_changed_text() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM rating WHERE sample_id = NEW.sample_id)
       OR EXISTS (SELECT FROM score JOIN scorer USING (scorer_id)
                   WHERE sample_id = NEW.sample_id AND metric = 'judge' AND score.status NOT IN ('not_drawn', 'failed')) THEN
        NEW.changed_at := now();
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER sample_changes BEFORE UPDATE ON sample FOR EACH ROW
    WHEN (OLD.text_sha256 <> NEW.text_sha256 OR OLD.question IS DISTINCT FROM NEW.question
          OR OLD.answer IS DISTINCT FROM NEW.answer)
    EXECUTE FUNCTION note_changed_text();
