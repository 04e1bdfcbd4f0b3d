/** The ways to name a victim in a denial. A serial number is none: that belongs to a revocation. */
export const victims = [
  "SPIFFE ID",
  "namespace and account",
  "cluster",
  "issuer",
  "node",
  "pod",
  "token",
] as const;

export type Victim = (typeof victims)[number];

/**
 * What a denial does to a product. `denied`: to the victim alone. `younger`: to every certificate whose last token
 * is older. `nobody`: to all, because nothing shows who is behind the name. `unknown`: nothing.
 */
type Effect = "denied" | "younger" | "nobody" | "unknown";

/** A product, and what each denial of its holder does. */
export interface DeniedProduct {
  readonly title: string;
  readonly effects: Readonly<Record<Victim, Effect>>;
}

const named = {
  "SPIFFE ID": "denied",
  "namespace and account": "denied",
  cluster: "denied",
  issuer: "denied",
} as const;
const shown = { ...named, node: "denied", pod: "denied", token: "denied" } as const;
const held = { ...named, node: "younger", pod: "younger", token: "younger" } as const;

/** Every product of the CA, by the way in which somebody asks for it. */
export const products = {
  token: { title: "X509-SVID, by token", effects: shown },
  signer: { title: "X509-SVID of a [signer by name](signers.md#signers-by-name)", effects: shown },
  certificate: { title: "X509-SVID, by client certificate", effects: held },
  forwarded: { title: "X509-SVID, through a gateway with the certificate", effects: held },
  identity: {
    title: "X509-SVID, through a gateway with the name alone",
    effects: { ...named, node: "nobody", pod: "nobody", token: "nobody" },
  },
  ztunnel: {
    title: "X509-SVID of a pod, by its node proxy",
    effects: { ...named, node: "denied", pod: "unknown", token: "unknown" },
  },
  pod: {
    title: "PodCertificateRequest, by `rampart signer`",
    effects: { ...named, node: "denied", pod: "denied", token: "unknown" },
  },
  service: { title: "serving certificate of a service, by `rampart signer`", effects: shown },
  gateway: { title: "serving certificate of a gateway", effects: shown },
  intermediate: { title: "intermediate", effects: shown },
} as const satisfies Readonly<Record<string, DeniedProduct>>;

export type ProductName = keyof typeof products;

const cells: Readonly<Record<Effect, string>> = {
  denied: "yes",
  younger: "older",
  nobody: "all",
  unknown: "no",
};

/** The table as docs/how-to/deny.md has it. */
export function deniedProductsTable(): string {
  const row = (...columns: readonly string[]): string => `| ${columns.join(" | ")} |`;
  return [
    row("product", ...victims),
    row("---", ...victims.map(() => "---")),
    ...Object.values(products).map(({ title, effects }) =>
      row(title, ...victims.map((victim) => cells[effects[victim]])),
    ),
  ].join("\n");
}
