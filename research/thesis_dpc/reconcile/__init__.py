"""Checkpoint/redo beside undo/redo: figures 5-17 and 5-18 and table 5.1 of the thesis."""
