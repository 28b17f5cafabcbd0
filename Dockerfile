# The images of docker-compose.yml. `headrace`: the binary and nothing else, for every Go role.
# `headrace-jax`: Python, JAX and the binary, for the reference trainer and engine, each of which
# runs under its own bridge or sidecar. Caches make a build after a change of code a short one.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
 CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/bin/headrace ./cmd/headrace
# A named volume takes the owner of the folder that it is first mounted on: docker-compose.yml has
# these, and `init` mounts those of NATS for it.
RUN mkdir -p /out/tmp /out/authority /out/data /out/data-2 /out/data-3 /state/weights /state/trainer /state/engine \
 && for role in nats admin grouper trainer engine producer viewer; do mkdir -p /out/secrets/$role; done \
 && chmod -R go= /out/authority /out/secrets /out/data* && chmod 1777 /out/tmp

FROM scratch AS headrace
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /out /
ENV HOME=/tmp USER=headrace
USER 65532:65532
ENTRYPOINT ["/bin/headrace"]

# What pip installs depends on pyproject.toml alone: a change of code does not install JAX anew.
FROM python:3.11-slim-bookworm AS python
WORKDIR /install
COPY trainer-bridge/python/pyproject.toml .
RUN python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
print(*p["dependencies"], *p["optional-dependencies"]["jax"], sep="\n")' > requirements.txt \
 && pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --prefix=/install/out -r requirements.txt \
 && find out -depth -type d -name tests -exec rm -rf {} +

FROM python:3.11-slim-bookworm AS headrace-jax
COPY --from=python /install/out /usr/local
COPY --from=build --chown=65532:65532 /state /
COPY --from=build /out/bin/headrace /bin/headrace
COPY trainer-bridge/python/headrace /opt/headrace/headrace
ENV PYTHONPATH=/opt/headrace PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp USER=headrace JAX_PLATFORMS=cpu
RUN python -m compileall -q /opt/headrace
USER 65532:65532
ENTRYPOINT ["/bin/headrace"]
