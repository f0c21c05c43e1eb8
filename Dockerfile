# SPDX-License-Identifier: MIT
# One image for every role: `docker build -t mcpd .`, then `docker run mcpd relay`, `daemon`, ...
# Nothing but Debian's packages is fetched. Where they come from a mirror or through a proxy:
#   docker build -t mcpd --build-arg BASE_IMAGE=our-debian:12 .     its apt sources name the mirror
#   docker build -t mcpd --build-arg http_proxy=http://proxy:3128 .
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY tests/setup.sh tests/
RUN tests/setup.sh build && rm -rf /var/lib/apt/lists/*
COPY . .
# With the packages of the libraries it is linked with: the other image installs just those.
RUN make -j"$(nproc)" build/mcpd && \
    objdump -p build/mcpd | awk '$1 == "NEEDED" { print "*/" $2 }' | xargs dpkg -S | cut -d: -f1 | \
    sort -u >build/packages && cat build/packages

FROM ${BASE_IMAGE}
COPY --from=build /src/build/packages /usr/share/mcpd/packages
RUN apt-get update -q && \
    DEBIAN_FRONTEND=noninteractive xargs -a /usr/share/mcpd/packages \
        apt-get install -y -q --no-install-recommends ca-certificates && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log && \
    groupadd --gid 10317 mcpd && \
    useradd --uid 10317 --gid mcpd --no-create-home --home-dir /var/lib/mcpd --shell /usr/sbin/nologin mcpd && \
    install -d -o mcpd -g mcpd -m 700 /var/lib/mcpd
COPY --from=build /src/build/mcpd /usr/local/bin/mcpd
# A number, so that a cluster can see that it is not root's; the folder's owner becomes the volume's.
USER 10317:10317
WORKDIR /var/lib/mcpd
VOLUME /var/lib/mcpd
# Beyond loopback keys are asked for (MCPD_INGEST_KEY_FILE). The probes are on both ports.
ENV MCPD_LISTENS=0.0.0.0:4317 MCPD_ADMIN_LISTENS=0.0.0.0:4400 \
    MCPD_DATA=/var/lib/mcpd/mcpd.db MCPD_SPOOL_DIR=/var/lib/mcpd/spool
EXPOSE 4317 4400
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["mcpd", "healthcheck"]
ENTRYPOINT ["mcpd"]
CMD ["daemon"]
