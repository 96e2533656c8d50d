"""How often cores change, and how efficiently they are used (games figures 12, 13, table IV)."""
