import { createLocalJWKSet, jwtVerify } from "jose";
import { CaError } from "../../../src/foundation/errors.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import { webCryptoProvider } from "../../../src/pki/crypto-provider.ts";
import {
  type JwtSvid,
  jwtSvidAlgorithms,
  validateJwtSvid,
} from "../../../src/pki/jose/jwt-svid.ts";
import { jwtSvidKeysIn, verificationKeys } from "../../../src/pki/jose/key-set.ts";
import type { Random } from "../../simulation/random.ts";
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

/** A JWT-SVID that a workload shows. Only one that jose accepts may pass, with the subject of its claims. */
export const jwtSvid: Target = {
  generate: (random) => Buffer.from(compactSvid(random)),
  judge: async (octets) => {
    const text = octets.toString("latin1");
    const [web, node] = await Promise.all(providers.map((keys) => verdictOf(text, keys)));
    const [told, other] = [web, node].map((one) => (typeof one === "string" ? one : one?.spiffeId));
    requireThat(told === other, `WebCrypto gives ${told}, node:crypto ${other}`);
    const subject = await subjectByJose(text);
    if (web === undefined || typeof web === "string") {
      return subject ? `${web}, accepted by jose` : String(web);
    }
    requireThat(subject === web.spiffeId, "accepted a token that jose refuses, or another subject");
    return "accepted";
  },
};

const published = issuerJwks.keys.map((key) => ({ ...key, use: "jwt-svid" }));
const providers = [webCryptoProvider, nodeCryptoProvider].map((provider) =>
  verificationKeys(jwtSvidKeysIn(published), provider),
);

async function verdictOf(
  text: string,
  keys: ReturnType<typeof verificationKeys>,
): Promise<JwtSvid | string> {
  try {
    const keysOf = (domain: string) => (domain === clusterLocal ? keys : undefined);
    return await validateJwtSvid(text, audience, keysOf, judgedAt);
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

const jwks = createLocalJWKSet(issuerJwks);

async function subjectByJose(text: string): Promise<string | undefined> {
  try {
    const { payload, protectedHeader } = await jwtVerify(text, jwks, {
      algorithms: [...jwtSvidAlgorithms],
      audience,
      currentDate: judgedAt,
      clockTolerance: 60,
      requiredClaims: ["exp", "sub"],
    });
    const { typ } = protectedHeader;
    const isKnown = typ === undefined || typ === "JWT" || typ === "JOSE";
    return isKnown ? payload.sub : undefined;
  } catch {
    // Rampart must refuse every token that jose refuses.
    return undefined;
  }
}
