"""Hot spots beyond the paper: larger rings, thresholds, churn, and a centralized balancer."""
