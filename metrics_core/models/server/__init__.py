"""Ask models behind HTTP servers: requests, retries, limits, spending and the record of every call."""
