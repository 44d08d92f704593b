"""A run in other tools' formats: TensorBoard, Chrome trace, tables."""
