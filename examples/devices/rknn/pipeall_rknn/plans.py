"""What plans may ask of the device: the line that the entry point gives."""

from pipeall.pipeline.planning.units import Traits

COMPONENTS = {"npu": Traits("pipeall_rknn.device", several=True)}
