"""What people would use instead, for the benches; Flink has an environment of its own."""
