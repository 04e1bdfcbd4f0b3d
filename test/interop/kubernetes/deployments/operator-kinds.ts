/** A kind of the Prometheus operator, whose own schema is not asked. */
function operatorKind(kind: string) {
  const singular = kind.toLowerCase();
  const plural = `${singular}s`;
  const group = "monitoring.coreos.com";
  const openAPIV3Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { kind, plural, singular },
      scope: "Namespaced",
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  };
}

/** The kinds that an API server must know before it takes the whole chart. */
export const operatorKinds: readonly ReturnType<typeof operatorKind>[] = [
  operatorKind("ServiceMonitor"),
  operatorKind("PrometheusRule"),
];
