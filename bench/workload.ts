import { create, toBinary } from "@bufbuild/protobuf";
import { IstioCertificateRequestSchema } from "../src/gen/istio/v1/auth/ca_pb.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../test/testkit/callers/tokens.ts";
import { createWorkloadKey } from "../test/testkit/callers/workload-key.ts";

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

/** A token of an account (`namespace:name`) that outlives every row. */
export const mintLasting = (key: TokenKey, issuer: string, account: string): Promise<string> =>
  mintAccountToken(key, issuer, account, new Date(), {
    exp: Math.floor(Date.now() / 1000) + 43_200,
  });

/** Makes a cluster with a fresh key: no key is checked in. */
export async function createCluster(issuer: string, alg: "RS256" | "ES256"): Promise<Cluster> {
  const key = await createTokenKey(alg, kid);
  const keyNamed = (kid: string): TokenKey => ({ ...key, publicJwk: { ...key.publicJwk, kid } });
  return {
    issuer,
    keySet: jwksOf(key),
    mintToken: (kid) => mintLasting(keyNamed(kid), issuer, "foo:httpbin"),
  };
}

/** A workload of a cluster, with a key of its own. */
export async function createWorkload(cluster: Cluster): Promise<Workload> {
  const { csrPem } = await createWorkloadKey("spiffe://cluster.local/ns/foo/sa/httpbin");
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
