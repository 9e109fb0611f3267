#!/bin/sh
# Answers of a network about a camera or a video, a line of JSON each, to a topic of an MQTT broker:
#     sh publish.sh yolox_nano.onnx camera:0 board/camera
set -eu
pipeall run "$1" "$2" --json | mosquitto_pub --stdin-line --topic "$3"
