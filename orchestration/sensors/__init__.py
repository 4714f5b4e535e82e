"""The sensors: each watches for one thing and asks for runs, or reports them."""
