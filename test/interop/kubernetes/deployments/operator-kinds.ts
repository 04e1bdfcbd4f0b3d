const group = "monitoring.coreos.com";
const openAPIV3Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

/** The kinds of the Prometheus operator, without its schemas, which an API server must know before it takes the whole chart. */
export const operatorKinds = ["ServiceMonitor", "PrometheusRule"].map((kind) => {
  const singular = kind.toLowerCase();
  const plural = `${singular}s`;
  return {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, plural, singular },
      scope: "Namespaced",
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
});
