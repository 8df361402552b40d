# Every allocator and every server of the comparison in one image, from the packages that `make deb` leaves in
# build/packages:
#   make deb && docker build -f integrations/docker/bench.Dockerfile -t granary-bench .
#   docker run --rm -v "$PWD/results:/results" granary-bench bench redis
# The report is then results/report.html. `bench all --budget 40m` runs every scenario.
# scripts/test_image.sh builds the image with buildah and measures Redis in it.
# `--build-context peers=FOLDER` gives what `granary peers install --dir FOLDER/peers` left, and saves half an hour.
ARG DEBIAN=debian:12-slim

# The allocators that Debian does not have, or not in their newest version, built at pinned versions.
FROM ${DEBIAN} AS peers
# hadolint ignore=DL3008 # the versions are those of the base image
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends cargo-web g++ make cmake ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY build/packages/libgranary1_*.deb build/packages/granary_*.deb /packages/
RUN dpkg -i /packages/*.deb
# The certificates that crates are fetched with: a proxy may have its own.
ARG CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt
RUN granary peers install --dir /peers jemalloc mimalloc3 snmalloc rpmalloc tcmalloc

FROM ${DEBIAN}
COPY build/packages/libgranary1_*.deb build/packages/granary_*.deb /packages/
# The packages start no service: a scenario starts its own server.
# hadolint ignore=DL3008 # the versions are those of the base image
RUN printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d \
 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /packages/*.deb \
    libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 \
    redis-server redis-tools mariadb-server mariadb-client sysbench nginx wrk memcached \
    postgresql postgresql-contrib rocksdb-tools python3 nodejs gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/* /packages
COPY --from=peers /peers/lib /usr/lib/granary/peers
COPY integrations/docker/bench-entrypoint.sh /usr/local/bin/granary-entrypoint
ENV GRANARY_PEERS=/usr/lib/granary/peers
WORKDIR /results
ENTRYPOINT ["granary-entrypoint"]
CMD ["bench", "redis"]
