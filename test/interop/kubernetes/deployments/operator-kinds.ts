/** A kind of the Prometheus operator, with the fields that the chart writes. */
function operatorKind(kind: string, spec: object) {
  const singular = kind.toLowerCase();
  const plural = `${singular}s`;
  const group = "monitoring.coreos.com";
  const openAPIV3Schema = { type: "object", properties: { spec } };
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

const text = { type: "string" };
const texts = { type: "object", additionalProperties: text };

const monitor = {
  type: "object",
  properties: {
    selector: { type: "object", properties: { matchLabels: texts } },
    endpoints: {
      type: "array",
      items: { type: "object", properties: { port: text, interval: text } },
    },
  },
};

const ruleFields = {
  alert: text,
  record: text,
  expr: text,
  for: text,
  labels: texts,
  annotations: texts,
};

const rule = {
  type: "object",
  properties: {
    groups: {
      type: "array",
      items: {
        type: "object",
        properties: {
          name: text,
          interval: text,
          rules: { type: "array", items: { type: "object", properties: ruleFields } },
        },
      },
    },
  },
};

/** The kinds that an API server must know before it takes the whole chart. */
export const operatorKinds: readonly ReturnType<typeof operatorKind>[] = [
  operatorKind("ServiceMonitor", monitor),
  operatorKind("PrometheusRule", rule),
];
