"""Adapters that give real models the members that metrics_core/protocols.py asks for."""
