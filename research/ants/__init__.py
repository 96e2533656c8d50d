"""The evaluation of the paper on ants: placements, beside a centralized optimum."""
