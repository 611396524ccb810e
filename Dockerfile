# The exporter, alone in an empty image. Needs neither BuildKit nor buildx, but the image golang:1.26, from its registry or
# loaded before, and Go's modules:
#
#   docker build --build-arg VERSION=1.2.3 --build-arg REVISION=$(git rev-parse HEAD) -t chatstack_exporter .
#
# Two builds of the same source and arguments with the same Go make the same binary.

FROM golang:1.26 AS build
# For networks that reach the modules by other ways than Go's default.
ARG GOPROXY
ARG GOSUMDB
ARG GONOSUMDB
ENV CGO_ENABLED=0 GOTOOLCHAIN=local
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Set by BuildKit; without it, or empty, the builder's own.
ARG TARGETARCH
ARG VERSION=unknown
ARG REVISION=unknown
ARG BRANCH=unknown
RUN GOOS=linux GOARCH="${TARGETARCH:-$(go env GOARCH)}" go build -buildvcs=false -trimpath -o /out/chatstack_exporter -ldflags "-s -w \
	-X github.com/prometheus/common/version.Version=$VERSION \
	-X github.com/prometheus/common/version.Revision=$REVISION \
	-X github.com/prometheus/common/version.Branch=$BRANCH" ./cmd/chatstack_exporter
RUN mkdir -p /out/etc/chatstack_exporter /out/var/lib/chatstack_exporter

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=https://github.com/chatstack-exporter/chatstack_exporter
LABEL org.opencontainers.image.title="chatstack_exporter" \
	org.opencontainers.image.description="Watches a self-hosted chat stack and tells Prometheus how it is" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.source="$SOURCE" \
	org.opencontainers.image.url="$SOURCE" \
	org.opencontainers.image.version="$VERSION" \
	org.opencontainers.image.revision="$REVISION"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/etc /etc
# A volume that is mounted there takes over whose it is.
COPY --from=build --chown=65532:65532 /out/var/lib/chatstack_exporter /var/lib/chatstack_exporter
COPY --from=build /out/chatstack_exporter /chatstack_exporter
# exporter.yaml is looked for here.
WORKDIR /etc/chatstack_exporter
USER 65532:65532
EXPOSE 9655
# It asks over a Unix socket in /dev/shm, also where the root is read-only and port 9655 wants a password or a certificate.
# With another --web.listen-address it wants the same flag: in Compose or Swarm healthcheck's
# test: [CMD, /chatstack_exporter, healthcheck, "--web.listen-address=:9700"]; docker run --health-cmd would want a shell.
HEALTHCHECK --interval=30s --timeout=6s --start-period=15s --retries=3 CMD ["/chatstack_exporter", "healthcheck"]
ENTRYPOINT ["/chatstack_exporter"]
