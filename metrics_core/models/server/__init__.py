"""How a model behind an HTTP server is asked: its address and key, one call, retries, and what calls cost."""
