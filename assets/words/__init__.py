"""Words for people: numbers, counts, names, tables and marked text, for pages and messages."""
