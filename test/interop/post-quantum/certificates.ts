import { generateKeyPairSync, sign } from "node:crypto";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { signatureAlgorithms } from "../../../src/pki/signature-algorithm.ts";
import { CertificationRequest } from "../../../src/pki/x509/request-to-be-signed.ts";
import { connectJson, outcomeOf, requestOf } from "../../contract/rpc-calls.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";

const issuer = "https://a.test";
const hour = 3_600_000;

/** What a verifier is shown, all PEM. */
export interface Shown {
  readonly classicalRoot: string;
  readonly postQuantumRoot: string;
  /** Of the mesh's own authorities, with its key. */
  readonly classicalLeaf: string;
  readonly key: string;
  /** Under the ML-DSA root, with that EC key. */
  readonly leaf: string;
  /** Under the ML-DSA root, with an ML-DSA key. */
  readonly ownKeyLeaf: string;
  readonly ownKey: string;
  readonly crl: string;
}

type Kind = "EC-P256" | "ML-DSA-65";

/** A new key, and its CSR as OpenSSL signs it. */
function requestFor(kind: Kind): { readonly key: string; readonly csr: string } {
  const { privateKey, publicKey } =
    kind === "EC-P256"
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : generateKeyPairSync("ml-dsa-65");
  const spki = new Uint8Array(publicKey.export({ format: "der", type: "spki" }));
  const info = CertificationRequest.info(new Uint8Array([0x30, 0]), spki, []);
  const signature = sign(kind === "EC-P256" ? "sha256" : null, info, privateKey);
  const [algorithm] = signatureAlgorithms[kind];
  if (!algorithm) throw new Error(`no algorithm of ${kind}`);
  const der = CertificationRequest.signed(info, algorithm.identifier, signature);
  const key = String(privateKey.export({ format: "pem", type: "pkcs8" }));
  return { key, csr: Pem.format("CERTIFICATE REQUEST", der) };
}

/** A CA with a signer of ML-DSA-65, founded two hours ago. */
export async function certificates(): Promise<Shown> {
  const founded = new Date(Date.now() - 2 * hour);
  const tokenKey = await createTokenKey("ES256", "k1");
  const day = founded.toISOString().slice(0, 10);
  const signer = { name: "pq", authority_key: "ML-DSA-65", inception_date: day };
  const clock = () => new Date();
  const ca = await startCa(
    {
      MAX_WORKLOAD_CERT_TTL: "1h",
      DEFAULT_WORKLOAD_CERT_TTL: "1h",
      CRL: "on",
      INCEPTION_DATE: day,
      ISSUERS: [{ issuer, jwks: jwksOf(tokenKey) }],
      SIGNERS: [{ ...signer, callers: [{ issuer }] }],
    },
    { clock },
  );
  await foundIfEmpty(ca.mint, founded);
  await Rotation.rotateAll([ca.mint, ...ca.signerMints.values()], founded);
  const ask = async (csr: string, metadata = {}): Promise<readonly string[]> => {
    const token = await mintAccountToken(tokenKey, issuer, "shop:cart", clock());
    const headers = { authorization: `Bearer ${token}` };
    const request = requestOf(connectJson, { csr, metadata }, headers);
    const outcome = await outcomeOf(connectJson, await ca.app.fetch(request));
    if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
    return outcome.certChain;
  };
  const classical = requestFor("EC-P256");
  const pq = { CertSigner: "pq" };
  const [classicalLeaf = "", classicalRoot = ""] = await ask(classical.csr);
  const [leaf = "", bundle = ""] = await ask(classical.csr, pq);
  const own = requestFor("ML-DSA-65");
  const [ownKeyLeaf = ""] = await ask(own.csr, pq);
  const authorities = ca.certificateAuthority.issuance.signers.get("pq")?.authorities;
  const id = (await authorities?.at(clock()))?.issuer?.authority.id;
  const crl = new Uint8Array(await (await ca.app.request(`/crl/${id}.crl`)).arrayBuffer());
  return {
    classicalRoot,
    classicalLeaf,
    key: classical.key,
    leaf,
    ownKeyLeaf,
    ownKey: own.key,
    postQuantumRoot: bundle.replace(classicalRoot, ""),
    crl: Pem.format("X509 CRL", crl),
  };
}
