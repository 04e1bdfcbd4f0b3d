import { createPublicKey, generateKeyPairSync, sign, verify, type webcrypto } from "node:crypto";
import { readSignedRequest, type SignedRequest } from "../worker/signed-request.ts";
import { readSignedToken, type SignedToken } from "../worker/signed-token.ts";

/** The credentials of a caller, and the key that signed its token. */
export interface FloorInput {
  readonly token: string;
  readonly csrPem: string;
  readonly tokenKey: webcrypto.JsonWebKey;
}

export type Floor = (times: number) => Promise<void>;

/**
 * The bare calls that no request can avoid, by WebCrypto and by node:crypto. They verify the token (RS256),
 * import the CSR's key, verify the CSR (P-256) and sign (P-256). Everything else is done before the
 * measurement.
 */
export async function createFloors(input: FloorInput): Promise<Record<"web" | "node", Floor>> {
  const jws = readSignedToken(input.token);
  return {
    web: await webFloor(input.tokenKey, jws, readSignedRequest(input.csrPem, "ieee-p1363")),
    node: nodeFloor(input.tokenKey, jws, readSignedRequest(input.csrPem, "der")),
  };
}

const p256 = { name: "ECDSA", namedCurve: "P-256" };
const sha256 = { name: "ECDSA", hash: "SHA-256" };
const rs256 = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };

async function webFloor(
  jwk: webcrypto.JsonWebKey,
  jws: SignedToken,
  csr: SignedRequest,
): Promise<Floor> {
  const { subtle } = crypto;
  const tokenKey = await subtle.importKey("jwk", jwk, rs256, false, ["verify"]);
  const { privateKey } = await subtle.generateKey(p256, false, ["sign", "verify"]);
  return async (times) => {
    for (let i = 0; i < times; i++) {
      const isToken = await subtle.verify(rs256.name, tokenKey, jws.signature, jws.signedBytes);
      const key = await subtle.importKey("spki", csr.spki, p256, false, ["verify"]);
      const isCsr = await subtle.verify(sha256, key, csr.signature, csr.signedBytes);
      await subtle.sign(sha256, privateKey, csr.signedBytes);
      if (!isToken || !isCsr) throw new Error("a signature of the floor does not verify");
    }
  };
}

function nodeFloor(jwk: webcrypto.JsonWebKey, jws: SignedToken, csr: SignedRequest): Floor {
  const tokenKey = createPublicKey({ key: { ...jwk }, format: "jwk" });
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return async (times) => {
    for (let i = 0; i < times; i++) {
      const isToken = verify("sha256", jws.signedBytes, tokenKey, jws.signature);
      const key = createPublicKey({ key: Buffer.from(csr.spki), format: "der", type: "spki" });
      const isCsr = verify("sha256", csr.signedBytes, key, csr.signature);
      sign("sha256", csr.signedBytes, privateKey);
      if (!isToken || !isCsr) throw new Error("a signature of the floor does not verify");
    }
  };
}
