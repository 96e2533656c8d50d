"""Cost and completed tasks of both strategies, by the model and task by task (games table V, figure
14).
"""
