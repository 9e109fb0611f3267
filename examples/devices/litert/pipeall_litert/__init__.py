"""A device for pipeall: stages in LiteRT."""
