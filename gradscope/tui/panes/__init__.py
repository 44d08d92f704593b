"""The panes of the live screen: one pane a module, listed in `gradscope.tui.panes.registry`."""
