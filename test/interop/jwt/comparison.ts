import { CaError } from "../../../src/foundation/errors.ts";
import { JwtSvid } from "../../../src/pki/jose/jwt-svid.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import { caseRandom } from "../../fuzz/campaign/case-random.ts";
import { issuerJwks, signedToken, tokenSigners } from "../../fuzz/corpus/tokens.ts";
import { oneOf } from "../../fuzz/mutation/choice.ts";
import { mutateJson } from "../../fuzz/mutation/json.ts";
import { mutateText } from "../../fuzz/mutation/text.ts";
import type { Outcome } from "../outcomes.ts";
import { type Answerer, audience } from "./relying-parties.ts";

const cases = 4_000;
const seed = 0x5eed;

const seconds = Math.floor(Date.now() / 1000);
const claims = {
  aud: [audience, "sts.amazonaws.com"],
  exp: seconds + 3600,
  iat: seconds,
  iss: "https://ca.test",
  sub: "spiffe://cluster.local/ns/foo/sa/bar",
};

/** go-spiffe reads no Edwards keys, and takes the algorithm from the key. */
const signers = tokenSigners.filter(({ header }) => header.alg !== "EdDSA");
const published = issuerJwks.keys.filter(({ kty }) => kty !== "OKP");
const keys = JwtSvidKeys.in(published.map((key) => ({ ...key, use: "jwt-svid" })));

function mutant(caseNumber: number): string {
  const random = caseRandom(seed, "jwt-svid", caseNumber);
  const signer = oneOf(random, signers);
  const header = random.chance(0.3)
    ? mutateJson(random, { ...signer.header, typ: oneOf(random, ["JWT", "JOSE", "jwt"]) })
    : JSON.stringify(signer.header);
  const payload = random.chance(0.8) ? mutateJson(random, claims) : JSON.stringify(claims);
  const token = signedToken(oneOf(random, [signer, signer, signer, ...signers]), header, payload);
  const text = random.chance(0.1) ? mutateText(random, token) : token;
  // A line carries the question.
  return text.replace(/[^\x20-\x7e]/g, "?");
}

async function subjectOf(token: string): Promise<string | undefined> {
  try {
    const keysOf = (domain: string) => (domain === "cluster.local" ? keys : undefined);
    return (await JwtSvid.validate(token, audience, keysOf, new Date())).spiffeId;
  } catch (error) {
    if (error instanceof CaError) return undefined;
    throw error;
  }
}

const bundle = JSON.stringify({ keys: published });

/**
 * Whatever Rampart accepts, go-spiffe accepts with the same subject, by the keys as a bundle. The reverse is not asked:
 * Rampart is stricter.
 */
export async function compareWithGoSpiffe({ ask }: Answerer): Promise<Outcome> {
  const client = "go-spiffe's jwtsvid";
  const faults: string[] = [];
  const tally = { accepted: 0, refused: 0, stricter: 0 };
  for (let i = 0; i < cases; i++) {
    const token = mutant(i);
    const own = await subjectOf(token);
    const question = { op: "bundle", token, audience: [audience], bundle };
    const { spiffeId, error } = JSON.parse(await ask(JSON.stringify(question)));
    if (own === spiffeId) tally[own === undefined ? "refused" : "accepted"]++;
    else if (own === undefined) tally.stricter++;
    else faults.push(`case ${i}: ${client} says ${spiffeId ?? error}, Rampart ${own}`);
  }
  console.log(`jwt: ${JSON.stringify(tally)} of ${cases} mutants, by ${client}`);
  const passed = cases - faults.length;
  return { client, server: "mutants of a token", passed, faults: faults.slice(0, 5) };
}
