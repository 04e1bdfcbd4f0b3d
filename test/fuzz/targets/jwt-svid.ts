import { CaError } from "../../../src/foundation/errors.ts";
import { JwtSvid, jwtSvidAlgorithms } from "../../../src/pki/jose/jwt-svid.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import type { Random } from "../../simulation/random.ts";
import { verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { issuerJwks, judgedAt, signedToken, tokenSigners } from "../corpus/tokens.ts";
import { indexBelow, oneOf } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { mutateText } from "../mutation/text.ts";
import { requireThat, type Target } from "./target.ts";

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
  generate: (random) => Buffer.from(compactSvid(random)),
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

async function verdictOf(text: string): Promise<JwtSvid | string> {
  try {
    const keysOf = (domain: string) => (domain === clusterLocal ? keys : undefined);
    return await JwtSvid.validate(text, audience, keysOf, judgedAt);
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    const { refusal } = error;
    return refusal.reason === "credential-rejected"
      ? `rejected by ${refusal.check}`
      : refusal.reason;
  }
}

function compactSvid(random: Random): string {
  const signer = oneOf(random, tokenSigners);
  const whole = { ...signer.header, typ: oneOf(random, ["JWT", "JOSE", "jwt", "at+jwt"]) };
  const header = random.chance(0.3) ? mutateJson(random, whole) : JSON.stringify(signer.header);
  const payload = random.chance(0.8) ? mutateJson(random, claims) : JSON.stringify(claims);
  const signing = random.chance(0.05) ? oneOf(random, tokenSigners) : signer;
  const compact = signedToken(signing, header, payload);
  return indexBelow(random, 8) === 0 ? mutateText(random, compact) : compact;
}

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
