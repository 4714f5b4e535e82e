-- The first value of a rating that was changed, and when fields of samples and videos were rewritten.

ALTER TABLE rating ADD COLUMN first_value DOUBLE PRECISION;
ALTER TABLE sample ADD COLUMN rewritten_at TIMESTAMP WITH TIME ZONE;
ALTER TABLE video ADD COLUMN rewritten_at TIMESTAMP WITH TIME ZONE;

CREATE FUNCTION keep_first_value() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.text_sha256 IS DISTINCT FROM OLD.text_sha256 THEN
        NEW.first_value := NULL;
    ELSIF NEW.value <> OLD.value THEN
        NEW.first_value := COALESCE(OLD.first_value, OLD.value);
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION note_rewritten_sample() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (OLD.video_id, OLD.system, OLD.segments, OLD.extra)
       IS DISTINCT FROM (NEW.video_id, NEW.system, NEW.segments, NEW.extra) THEN
        NEW.rewritten_at := now();
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION note_rewritten_video() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (OLD.status, OLD.content_sha256, OLD.licence, OLD.source_url, OLD.collected_at, OLD.opt_out, OLD.extra)
       IS DISTINCT FROM
       (NEW.status, NEW.content_sha256, NEW.licence, NEW.source_url, NEW.collected_at, NEW.opt_out, NEW.extra) THEN
        NEW.rewritten_at := now();
    END IF;
    RETURN NEW;
END $$;

-- Triggers of a table fire in the order of their names: after rating_texts, which notes the text.
CREATE TRIGGER rating_values BEFORE UPDATE ON rating FOR EACH ROW EXECUTE FUNCTION keep_first_value();
CREATE TRIGGER sample_rewritten BEFORE UPDATE ON sample FOR EACH ROW EXECUTE FUNCTION note_rewritten_sample();
CREATE TRIGGER video_rewritten BEFORE UPDATE ON video FOR EACH ROW EXECUTE FUNCTION note_rewritten_video();
