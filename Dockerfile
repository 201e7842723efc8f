# Builds all four programs from this tree: docker build -t sluice:latest .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /out/ ./cmd/sluice ./cmd/watcher ./cmd/executor ./cmd/analyzer

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ /
USER 65532
ENTRYPOINT ["/sluice"]
