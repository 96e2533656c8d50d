"""Components that move between simulated nodes while tuples flow through them."""
