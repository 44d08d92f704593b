"""The command line, one module a command; heavy imports are deferred into the commands."""
