//! Generators and oracles for random tensor programs.
