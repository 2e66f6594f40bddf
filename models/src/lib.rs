//! Small real models on the public API.
