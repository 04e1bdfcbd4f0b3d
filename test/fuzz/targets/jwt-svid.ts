import { JwtSvid, jwtSvidAlgorithms } from "../../../src/pki/jose/jwt-svid.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import { verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { issuerJwks, judgedAt } from "../corpus/tokens.ts";
import { hostileToken } from "../mutation/token.ts";
import { orReason, requireThat, type Target } from "./target.ts";

const audience = "https://vault.test";

const claims = {
  aud: [audience, "sts.amazonaws.com"],
  exp: 1_795_264_000,
  iat: 1_795_262_000,
  iss: "https://ca.test",
  jti: "5f3f1d0a-7c55-4a53-9b73-2f6d0a3a1b11",
  sub: "spiffe://cluster.local/ns/foo/sa/bar",
};

/** A JWT-SVID that a workload shows. Only one that `node:crypto` verifies may pass, with the subject of its claims. */
export const jwtSvid: Target = {
  generate: (random) => Buffer.from(hostileToken(random, claims, ["JWT", "JOSE", "jwt", "at+jwt"])),
  judge: async (octets) => {
    const text = octets.toString("latin1");
    const verdict = await verdictOf(text);
    const subject = subjectByNode(text);
    if (typeof verdict === "string") {
      return subject === undefined ? verdict : `${verdict}, accepted by node:crypto`;
    }
    requireThat(
      subject === verdict.spiffeId,
      "accepted a token that node:crypto or its claims refuse, or another subject",
    );
    return "accepted";
  },
};

const published = issuerJwks.keys.map((key) => ({ ...key, use: "jwt-svid" }));
const keys = JwtSvidKeys.in(published);

const verdictOf = (text: string): Promise<JwtSvid | string> =>
  orReason(() => {
    const keysOf = (domain: string) => (domain === clusterLocal ? keys : undefined);
    return JwtSvid.validate(text, audience, keysOf, judgedAt);
  });

const algorithms: readonly unknown[] = jwtSvidAlgorithms;
const leewaySeconds = 60;

function subjectByNode(text: string): unknown {
  const { header, claims } = verifiedByNode(text, issuerJwks) ?? {};
  if (!header || !claims || !algorithms.includes(header["alg"])) return undefined;
  const { typ } = header;
  const { sub, aud, exp, nbf = 0, iat = 0 } = claims;
  const seconds = judgedAt.getTime() / 1000;
  const isTimely =
    Number(exp) > seconds && [nbf, iat].every((time) => Number(time) <= seconds + leewaySeconds);
  const isMeant = [aud].flat().includes(audience);
  const isKnown = typ === undefined || typ === "JWT" || typ === "JOSE";
  return isTimely && isMeant && isKnown ? sub : undefined;
}
