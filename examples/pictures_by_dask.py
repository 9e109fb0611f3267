"""What is in the pictures of a folder, by several machines: one pipeall.Model on each worker of Dask.

    python pictures_by_dask.py yolox_nano.onnx photos/ --scheduler tcp://192.168.0.2:8786

Workers have one thread each (``dask worker --nthreads 1``): the model uses all processors of its machine. Network and
pictures lie at the same paths on all machines. Without --scheduler two workers of this machine do the work.
"""

import argparse
from pathlib import Path

from dask.distributed import Client, LocalCluster, WorkerPlugin, get_worker

import pipeall


class Network(WorkerPlugin):
    """Each worker, also one that joins later, opens the network once."""

    def __init__(self, path: str):
        self.path = path

    def setup(self, worker):
        worker.model = pipeall.Model(self.path)

    def teardown(self, worker):
        worker.model.close()


def answer(path: str) -> str:
    return get_worker().model(path).to_json()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scheduler")
    given = parser.parse_args()
    cluster = given.scheduler or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    pictures = sorted(str(path.resolve()) for path in given.folder.iterdir() if path.suffix.lower() in (".jpg", ".png"))
    with Client(cluster) as client:
        client.register_plugin(Network(str(Path(given.network).resolve())))
        for path, line in zip(pictures, client.gather(client.map(answer, pictures)), strict=True):
            print(Path(path).name, line, flush=True)


if __name__ == "__main__":
    main()
