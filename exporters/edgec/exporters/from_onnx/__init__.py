"""ONNX models to programs."""
