# One image for every process of the ledger; what it runs is named where it is started (compose.yaml).

FROM python:3.13-slim AS build
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
RUN pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
    && /opt/permission-ledger/bin/pip install --no-deps --no-index wheels/*.whl

FROM python:3.13-slim
RUN useradd --create-home ledger
COPY --from=build /opt/permission-ledger /opt/permission-ledger
ENV PATH=/opt/permission-ledger/bin:$PATH PYTHONUNBUFFERED=1
USER ledger
WORKDIR /home/ledger
CMD ["permission-ledger", "--help"]
