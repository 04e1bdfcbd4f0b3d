# The image of Rampart with wrangler, for verbs on the store of a Worker: docs/how-to/own-root.md.
ARG RAMPART=rampart:0.3.0
FROM ${RAMPART}
USER root
RUN npm install --no-save --no-audit --no-fund --ignore-scripts wrangler@4.164.0
USER 65532:65532
ENTRYPOINT ["node", "/rampart/dist/rampart.js"]
CMD ["--help"]
