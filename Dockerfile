# docker build -t pipeall .        for arm64 and amd64: docker buildx build --platform linux/arm64,linux/amd64 -t pipeall .
# docker run --rm -v "$PWD":/work -v pipeall-cache:/cache pipeall run yolox_nano.onnx photos/
# A GPU: --device /dev/dri or /dev/mali0, --group-add of its group, and the vendor's driver mounted: docs/how-to/services.md
FROM python:3.13-slim-trixie AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps -w /wheels .

FROM python:3.13-slim-trixie
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ocl-icd-libopencl1 && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 pipeall && install -d -o pipeall /cache /work
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[cli,onnx,opencl,video]"
USER 1000
ENV PIPEALL_CACHE=/cache
VOLUME /cache
WORKDIR /work
ENTRYPOINT ["pipeall"]
CMD ["--help"]
