"""Stages of a pipeall pipeline on Rockchip's NPU, by librknnrt. Never run on hardware."""
