"""Makes the models of boards that come with the package: ``python -m tools.board_models.SCRIPT`` in a clone."""

import bench  # noqa: F401 - which puts the tests' helpers on the path
