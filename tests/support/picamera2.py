"""In the place of picamera2, which needs a Raspberry Pi: what docs/how-to/cameras.md uses of it, as it behaves there.

Images lie in buffers of shared memory whose rows end at a multiple of 64 bytes; "RGB888" is blue, green, red. There are
``buffer_count`` of them; one that was released belongs to the camera, which writes something else into it at once.
"""

import mmap
import threading

import numpy as np

PATIENCE_S = 20  # the real one waits for ever
SCENES = 11  # then they come again


def level(number, size):
    """What scene ``number`` shows, (H, W, 3), in the order in which it lies in memory."""
    width, height = size
    y, x, c = np.ogrid[:height, :width, :3]
    return ((y * 2 + x + 70 * c + 13 * number) % 256).astype(np.uint8)


class Request:
    def __init__(self, camera, number, buffer):
        self.camera, self.number, self.buffer = camera, number, buffer

    def release(self):
        camera, buffer, self.buffer = self.camera, self.buffer, None
        np.frombuffer(buffer, np.uint8)[:] = 0xEE
        with camera.changed:
            camera.free.append(buffer)
            camera.changed.notify_all()


class MappedArray:
    def __init__(self, request, stream, reshape=True, write=True):
        assert stream == "main" and reshape
        self.request, self.array = request, None

    def __enter__(self):
        (width, height), stride = self.request.camera.size, self.request.camera.stride
        whole = np.array(self.request.buffer, copy=False, dtype=np.uint8)
        self.array = whole.reshape(height, stride)[:, : 3 * width].reshape(height, width, 3)
        return self

    def __exit__(self, *exception):
        self.array = None


class Picamera2:
    def __init__(self):
        self.changed, self.taken, self.started = threading.Condition(), 0, False

    def create_video_configuration(self, main, buffer_count=6):
        return {"main": main, "buffer_count": buffer_count}

    def configure(self, configuration):
        self.size, form = configuration["main"]["size"], configuration["main"]["format"]
        assert form == "RGB888"
        self.stride = -3 * self.size[0] // 64 * -64
        count = configuration["buffer_count"]
        self.scenes = [level(number, self.size).reshape(self.size[1], -1) for number in range(SCENES)]
        self.free = [mmap.mmap(-1, self.stride * self.size[1]) for _ in range(count)]

    def start(self):
        self.started = True

    def capture_request(self):
        assert self.started
        with self.changed:
            assert self.changed.wait_for(lambda: self.free, PATIENCE_S), "all buffers are held"
            buffer, number = self.free.pop(0), self.taken
            self.taken += 1
        rows = np.frombuffer(buffer, np.uint8).reshape(-1, self.stride)
        rows[:, : 3 * self.size[0]] = self.scenes[number % SCENES]
        return Request(self, number, buffer)
