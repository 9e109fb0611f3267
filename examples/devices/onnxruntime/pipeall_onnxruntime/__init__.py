"""A device for pipeall: stages in onnxruntime."""
