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
# A new volume takes over owner and mode of the folder it is mounted on (compose.yaml): no process needs rights of root.
RUN useradd --create-home --uid 10001 ledger \
    && install --directory --owner ledger --mode 0700 /var/lib/permission-ledger/url \
    && install --directory --owner ledger --mode 0755 /var/lib/permission-ledger/acl
COPY --from=build /opt/permission-ledger /opt/permission-ledger
ENV PATH=/opt/permission-ledger/bin:$PATH PYTHONUNBUFFERED=1
USER ledger
WORKDIR /home/ledger
CMD ["permission-ledger", "--help"]
