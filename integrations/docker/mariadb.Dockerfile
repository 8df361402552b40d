# Another image on Granary: one more file, one variable.
#   docker build -f integrations/docker/mariadb.Dockerfile -t mariadb-granary .
ARG LIBRARY=granary-lib:0.1.0
ARG MARIADB=mariadb:10.11
FROM ${LIBRARY} AS library

FROM ${MARIADB}
COPY --from=library /lib/libgranary.so.1 /usr/local/lib/libgranary.so.1
ENV LD_PRELOAD=/usr/local/lib/libgranary.so.1
