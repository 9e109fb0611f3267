"""What is in a picture, over HTTP: POST a picture to /, and its answer comes back as JSON.

    python http_server.py yolox_nano.onnx --port 8000
    curl --data-binary @photo.jpg http://127.0.0.1:8000/

GET /health says "ok". Ctrl-C and SIGTERM end it once the pictures under way have their answers.
"""

import argparse
import io
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image, UnidentifiedImageError

import pipeall

MOST_BYTES = 20_000_000


class Handler(BaseHTTPRequestHandler):
    timeout = 30  # seconds that a silent client may hold its thread

    def do_GET(self):
        self.reply(200, "ok") if self.path == "/health" else self.reply(404, "expected /health")

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if not 0 < length <= MOST_BYTES:
            return self.reply(413, f"expected a picture of at most {MOST_BYTES} bytes")
        try:
            picture = np.asarray(Image.open(io.BytesIO(self.picture(self.rfile.read(length)))).convert("RGB"))
        except (UnidentifiedImageError, OSError):
            return self.reply(400, "expected a picture such as a JPEG file")
        self.reply(200, self.text(self.server.model(picture)), "application/json")

    def picture(self, body):
        """The file that a request brings."""
        return body

    def text(self, answer):
        """What it gets for it."""
        return answer.to_json()

    def reply(self, status, text, kind="text/plain"):
        body = text.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(handler, about):
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    with pipeall.Model(given.network) as model, ThreadingHTTPServer((given.host, given.port), handler) as server:
        server.model = model
        server.daemon_threads = False
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"listening on http://{given.host}:{server.server_port}/, {model.plan}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main(Handler, __doc__)
