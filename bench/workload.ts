import "reflect-metadata/lite";
import { randomUUID } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import * as x509 from "@peculiar/x509";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { IstioCertificateRequestSchema } from "../src/gen/istio/v1/auth/ca_pb.ts";

/** A cluster with one key for its tokens. */
export interface Cluster {
  readonly issuer: string;
  readonly keySet: { readonly keys: readonly object[] };
  /** A fresh token of the same workload, with this key id in its header. */
  readonly mintToken: (kid: string) => Promise<string>;
}

/** A token and a CSR as a workload sends them. */
export interface Workload {
  readonly token: string;
  /** The same token with a key id that the cluster does not publish. */
  readonly tokenOfUnknownKey: string;
  readonly csrPem: string;
  /** The request message, binary. */
  readonly message: Uint8Array<ArrayBuffer>;
}

/** The id of a cluster's key. */
const kid = "bench";

/** Makes a cluster with a fresh key: no key is checked in. */
export async function createCluster(issuer: string, alg: "RS256" | "ES256"): Promise<Cluster> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid, alg, use: "sig" };
  return {
    issuer,
    keySet: { keys: [jwk] },
    mintToken: (kid) => claims(issuer).setProtectedHeader({ alg, kid }).sign(privateKey),
  };
}

/** A workload of a cluster, with a key of its own. */
export async function createWorkload(cluster: Cluster): Promise<Workload> {
  const csrPem = await createCsr();
  const request = create(IstioCertificateRequestSchema, {
    csr: csrPem,
    validityDuration: 86_400n,
    metadata: { CertSigner: "" },
  });
  return {
    token: await cluster.mintToken(kid),
    tokenOfUnknownKey: await cluster.mintToken("unknown"),
    csrPem,
    message: new Uint8Array(toBinary(IstioCertificateRequestSchema, request)),
  };
}

function claims(issuer: string): SignJWT {
  const bound = { name: "httpbin-5b7f9c7d4-x2x8v", uid: randomUUID() };
  return new SignJWT({
    "kubernetes.io": {
      namespace: "foo",
      node: { name: "node-1", uid: randomUUID() },
      pod: bound,
      serviceaccount: { name: "httpbin", uid: randomUUID() },
    },
  })
    .setIssuer(issuer)
    .setAudience(["istio-ca"])
    .setSubject("system:serviceaccount:foo:httpbin")
    .setJti(randomUUID())
    .setIssuedAt()
    .setNotBefore("0s")
    .setExpirationTime("12h");
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
