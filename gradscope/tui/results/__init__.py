"""The results of a run that is over: one module a tab, over plain data that threads read."""
