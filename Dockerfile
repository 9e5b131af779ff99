# One image for all processes and commands: `docker build -t sluice .`, then `docker run sluice api`, `worker`,
# `migrate`. NODE_IMAGE is the base: Node 26 with npm. Pin it by digest, which `docker buildx imagetools inspect
# node:26-slim` prints:
#   docker build --build-arg NODE_IMAGE=node:26-slim@sha256:<digest> -t sluice .
ARG NODE_IMAGE=node:26-slim

FROM ${NODE_IMAGE} AS packages
WORKDIR /opt/sluice
COPY package.json package-lock.json .npmrc ./
# Another registry than the public one: docker build --secret id=npmrc,src=$HOME/.npmrc
RUN --mount=type=secret,id=npmrc,target=/root/.npmrc npm ci --ignore-scripts --no-audit
COPY . .
RUN npm run build

# `docker build --target emulators`: the stand-ins for providers, for demos. They need development packages.
FROM packages AS emulators
RUN mkdir /data && chown 10001:10001 /data
USER 10001:10001
ENTRYPOINT ["node"]

FROM packages AS production
RUN npm prune --omit=dev --omit=optional --ignore-scripts --no-audit \
 && npm sbom --package-lock-only --sbom-format=cyclonedx --omit=dev --omit=optional > sbom.cdx.json \
 && deploy/image/prune.sh \
 && rm -rf src/start src/emulators src/dashboard/web

FROM ${NODE_IMAGE}
ARG NODE_IMAGE
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sluice" \
      org.opencontainers.image.description="A multi-tenant payments backend" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${NODE_IMAGE}"
ENV NODE_ENV=production HOST=0.0.0.0 METRICS_HOST=0.0.0.0 METRICS_PORT=9464
WORKDIR /opt/sluice
# The packages change least often, so they are the first layer.
COPY --from=production /opt/sluice/node_modules ./node_modules
COPY --from=production /opt/sluice/package.json /opt/sluice/sbom.cdx.json /opt/sluice/LICENSE ./
COPY --from=production /opt/sluice/migrations ./migrations
COPY --from=production /opt/sluice/docs ./docs
COPY --from=production /opt/sluice/sdk/README.md ./sdk/
COPY --from=production /opt/sluice/dist ./dist
COPY --from=production /opt/sluice/deploy/image/*.ts ./deploy/image/
COPY --from=production /opt/sluice/src ./src
USER 10001:10001
EXPOSE 3000 3001 3002 9464
# /readyz is 503 until the process can work, and while it stops.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["node", "-e", \
  "fetch(`http://127.0.0.1:${process.env.METRICS_PORT}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1))"]
ENTRYPOINT ["node", "deploy/image/sluice.ts"]
CMD ["--help"]
