import type { Authenticator } from "../../../src/authn/caller.ts";
import { IssuerKeys } from "../../../src/authn/issuer-keys.ts";
import { createTokenAuthenticator } from "../../../src/authn/token-authenticator.ts";
import { KeySet } from "../../../src/pki/jose/key-set.ts";
import type { Random } from "../../simulation/random.ts";
import { tokenIssuerWithoutKeys } from "../../testkit/callers/token-issuers.ts";
import { verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { accountClaims, issuerJwks, issuerName, judgedAt } from "../corpus/tokens.ts";
import { oneOf } from "../mutation/choice.ts";
import { hostileToken } from "../mutation/token.ts";
import { orReason, requireThat, type Target, unlessRefused, WrongAnswer } from "./target.ts";

/** The bearer token of a call. Only one that `node:crypto` verifies may name a caller, and only the one in its claims. */
export const token: Target = {
  generate: (random) => {
    const compact = hostileToken(random, accountClaims, ["JWT"]);
    return Buffer.from(random.chance(0.025) ? withoutSignature(random, compact) : compact);
  },
  judge: async (octets) => {
    const text = octets.toString("latin1");
    const headers = await unlessRefused(
      () => new Headers({ authorization: `Bearer ${text}` }),
      TypeError,
    );
    if (!headers) return "no header value";
    const caller = await orReason(() => authenticate({ headers }, judgedAt));
    const identity = identityByNode(text.trim());
    if (typeof caller === "string") return identity ? `${caller}, accepted by node:crypto` : caller;
    if (!identity) throw new WrongAnswer("accepted a token that node:crypto or its claims refuse");
    requireThat(caller.spiffeId === identity, "gave the caller another identity than its claims");
    return "accepted";
  },
};

const authenticate = authenticator();

function authenticator(): Authenticator {
  const usable = KeySet.parse(issuerJwks);
  if (!usable) throw new Error("no JWK Set");
  const keys = IssuerKeys.pinned({ usable, unusable: [] });
  return createTokenAuthenticator(clusterLocal, [{ ...tokenIssuerWithoutKeys(issuerName), keys }]);
}

/** A token with no signature, or with that of another token. */
function withoutSignature(random: Random, compact: string): string {
  const signed = compact.slice(0, compact.lastIndexOf(".") + 1);
  return signed + oneOf(random, ["", "AA", "A".repeat(86), "_".repeat(342)]);
}

const algorithms: readonly unknown[] = ["RS256", "ES256", "EdDSA"];

function identityByNode(text: string): string | undefined {
  const { header, claims } = verifiedByNode(text, issuerJwks) ?? {};
  if (!header || !claims || !algorithms.includes(header["alg"])) return undefined;
  const { typ = "JWT" } = header;
  return String(typ).toUpperCase() === "JWT" ? identityIn(claims, judgedAt) : undefined;
}

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
