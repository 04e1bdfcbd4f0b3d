import { issuerName } from "../corpus/tokens.ts";

type Claims = Readonly<Record<string, unknown>>;

const label = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?";
const subject = new RegExp(`^system:serviceaccount:(${label}):(${label}(?:\\.${label})*)$`);
const leewaySeconds = 60;

/** The SPIFFE ID that claims entitle to, read anew and without a library; `undefined` for none. */
export function identityIn(claims: Claims, now: Date): string | undefined {
  const { iss, aud, exp, nbf = 0, iat = 0, sub } = claims;
  const seconds = now.getTime() / 1000;
  const isTimely =
    isNumber(exp) &&
    exp > seconds &&
    isNumber(nbf) &&
    nbf <= seconds + leewaySeconds &&
    isNumber(iat) &&
    iat <= seconds + leewaySeconds;
  const isMeant = aud === "istio-ca" || (Array.isArray(aud) && aud.includes("istio-ca"));
  const [, namespace, name] = typeof sub === "string" ? (subject.exec(sub) ?? []) : [];
  if (iss !== issuerName || !isTimely || !isMeant || !namespace || !name) return undefined;
  if (!agrees(claims["kubernetes.io"], namespace, name)) return undefined;
  return `spiffe://cluster.local/ns/${namespace}/sa/${name}`;
}

const isNumber = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value);

function agrees(bound: unknown, namespace: string, name: string): boolean {
  if (bound === undefined) return true;
  const claim = bound as {
    readonly namespace?: unknown;
    readonly serviceaccount?: { readonly name?: unknown };
  } | null;
  return claim?.namespace === namespace && claim.serviceaccount?.name === name;
}
