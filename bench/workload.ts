import "reflect-metadata/lite";
import { randomUUID } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import * as x509 from "@peculiar/x509";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { IstioCertificateRequestSchema } from "../src/gen/istio/v1/auth/ca_pb.ts";

/** A cluster with one RS256 key, and a token and a CSR as a workload of it sends them. */
export interface Workload {
  readonly issuer: string;
  readonly keySet: { readonly keys: readonly object[] };
  readonly token: string;
  /** As good as the other, but for a key that the cluster does not publish. */
  readonly tokenOfUnknownKey: string;
  readonly csrPem: string;
  /** The request message, binary. */
  readonly message: Uint8Array<ArrayBuffer>;
}

const issuer = "https://cluster.example";

/** Makes everything anew: nothing in a benchmark is checked in. */
export async function createWorkload(): Promise<Workload> {
  const keys = await generateKeyPair("RS256", { extractable: true });
  const jwk = { ...(await exportJWK(keys.publicKey)), kid: "bench", alg: "RS256", use: "sig" };
  const csrPem = await createCsr();
  const request = create(IstioCertificateRequestSchema, {
    csr: csrPem,
    validityDuration: 86_400n,
    metadata: { CertSigner: "" },
  });
  return {
    issuer,
    keySet: { keys: [jwk] },
    token: await createToken(keys.privateKey, "bench"),
    tokenOfUnknownKey: await createToken(keys.privateKey, "unknown"),
    csrPem,
    message: new Uint8Array(toBinary(IstioCertificateRequestSchema, request)),
  };
}

function createToken(privateKey: CryptoKey, kid: string): Promise<string> {
  const bound = { name: "httpbin-5b7f9c7d4-x2x8v", uid: randomUUID() };
  return new SignJWT({
    "kubernetes.io": {
      namespace: "foo",
      node: { name: "node-1", uid: randomUUID() },
      pod: bound,
      serviceaccount: { name: "httpbin", uid: randomUUID() },
    },
  })
    .setProtectedHeader({ alg: "RS256", kid })
    .setIssuer(issuer)
    .setAudience(["istio-ca"])
    .setSubject("system:serviceaccount:foo:httpbin")
    .setJti(randomUUID())
    .setIssuedAt()
    .setNotBefore("0s")
    .setExpirationTime("12h")
    .sign(privateKey);
}

async function createCsr(): Promise<string> {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, [
    "sign",
    "verify",
  ]);
  const name = { type: "url", value: "spiffe://cluster.local/ns/foo/sa/httpbin" } as const;
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    extensions: [new x509.SubjectAlternativeNameExtension([name], true)],
  });
  return csr.toString("pem");
}
