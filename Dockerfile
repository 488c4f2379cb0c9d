# One image for every process of the ledger; what it runs is named where it is started (compose.yaml).

# A newer one: docker buildx imagetools inspect python:3.13-slim
FROM python:3.13.15-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS python

FROM python AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN python -m venv /opt/permission-ledger \
    && /opt/permission-ledger/bin/pip install --require-hashes --only-binary :all: --requirement requirements/runtime.txt \
    && pip install --require-hashes --only-binary :all: --requirement requirements/build.txt
COPY pyproject.toml LICENSE README.md ./
COPY ledger ledger
COPY projections projections
COPY workers workers
COPY permission_ledger.py ./
RUN pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
    && /opt/permission-ledger/bin/pip install --no-deps --no-index wheels/*.whl

FROM python
# The build gives version and commit: docker build --build-arg VERSION=1.0.0 --build-arg REVISION=$(git rev-parse HEAD) .
ARG VERSION=0.0.0+unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="permission-ledger" \
    org.opencontainers.image.description="An event-sourced ledger of what coding agents may do" \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.base.name="docker.io/library/python:3.13.15-slim" \
    org.opencontainers.image.base.digest="sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b"
# A new volume takes over owner and mode of the folder it is mounted on (compose.yaml): no process needs rights of root.
RUN groupadd --gid 10001 ledger \
    && useradd --create-home --uid 10001 --gid 10001 ledger \
    && install --directory --owner ledger --mode 0700 /var/lib/permission-ledger/url \
    && install --directory --owner ledger --mode 0700 /var/lib/permission-ledger/archiver \
    && install --directory --owner ledger --mode 0700 /var/lib/permission-ledger/home \
    && install --directory --owner ledger --mode 0700 /var/lib/permission-ledger/archive \
    && install --directory --owner ledger --mode 0755 /var/lib/permission-ledger/acl
COPY --from=build /opt/permission-ledger /opt/permission-ledger
ENV PATH=/opt/permission-ledger/bin:$PATH PYTHONUNBUFFERED=1
# By number: a cluster that forbids root cannot look a name up.
USER 10001:10001
WORKDIR /home/ledger
# Whatever the container runs, its ledger must be reachable; compose.yaml asks each service more exactly.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s --retries=3 CMD ["permission-ledger", "doctor"]
CMD ["permission-ledger", "--help"]
