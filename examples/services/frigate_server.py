"""A detector of Frigate, over HTTP: Frigate's detector "deepstack" posts parts of its cameras' frames, and gets boxes.

    python frigate_server.py yolox_nano.onnx --host 0.0.0.0 --port 5000

In Frigate's config.yml:

    detectors:
      pipeall:
        type: deepstack
        api_url: http://BOARD:5000/v1/vision/detection
        api_timeout: 1
"""

import json
from email import message_from_bytes

import http_server

MOST_BOXES = 20  # that Frigate has room for


class Handler(http_server.Handler):
    def picture(self, body):
        """The field "image" of a form."""
        form = message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\n\n".encode() + body)
        parts = form.get_payload() if form.is_multipart() else []
        images = [part for part in parts if part.get_param("name", header="Content-Disposition") == "image"]
        return images[0].get_payload(decode=True) if images else b""

    def text(self, answer):
        """The surest box first; Frigate stops reading at the first that is too unsure or of a class without a name."""
        boxes = [
            {"label": box.name, "confidence": box.score}
            | {"x_min": box.left, "y_min": box.top, "x_max": box.right, "y_max": box.bottom}
            for box in answer.boxes[:MOST_BOXES]
        ]
        return json.dumps({"success": True, "predictions": boxes})


if __name__ == "__main__":
    http_server.main(Handler, __doc__)
