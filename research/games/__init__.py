"""The evaluation of the paper on elasticity games: cores that modules choose, beside rivals."""
