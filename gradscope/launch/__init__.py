"""Runs as processes: spawn, supervise, finish, find again, stop."""
