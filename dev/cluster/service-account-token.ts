import { createHash, randomUUID } from "node:crypto";
import { SignJWT } from "jose";
import type { SigningKey } from "./signing-key.ts";

/** A Kubernetes object that a token is bound to. */
interface ObjectReference {
  readonly name: string;
  readonly uid: string;
}

/** The claims of a token; every field is validated. */
export interface TokenClaims {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly audiences: readonly string[];
  readonly expirationSeconds: number;
  /** The pod that mounts the token; by default an invented pod of this ServiceAccount. */
  readonly pod?: ObjectReference;
}

/** A UUID that stays the same from start to start, as an object's uid does. */
export function uidOf(kind: string, name: string): string {
  const digest = createHash("sha256").update(`${kind}/${name}`).digest();
  digest.writeUInt8((digest.readUInt8(6) & 0x0f) | 0x40, 6);
  digest.writeUInt8((digest.readUInt8(8) & 0x3f) | 0x80, 8);
  return digest.toString("hex", 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function inventedPod(namespace: string, serviceAccount: string): ObjectReference {
  const uid = uidOf("pod", `${namespace}/${serviceAccount}`);
  const owner = serviceAccount.slice(0, 200).replace(/[-.]+$/, "");
  return { name: `${owner}-${uid.slice(0, 8)}`, uid };
}

const node: ObjectReference = {
  name: "development-node",
  uid: uidOf("node", "development-node"),
};

/**
 * Mints a token as a kubelet projects it into a pod. `aud` is always a list. The header has `alg` and `kid`
 * but no `typ` (kubernetes `pkg/serviceaccount/jwt.go`, `claims.go`).
 */
export function mintToken(
  { namespace, serviceAccount, audiences, expirationSeconds, pod }: TokenClaims,
  signer: { readonly issuer: string; readonly key: SigningKey },
  now: Date,
): Promise<string> {
  const issuedAt = Math.floor(now.getTime() / 1000);
  const account = uidOf("serviceaccount", `${namespace}/${serviceAccount}`);
  return new SignJWT({
    aud: [...audiences],
    exp: issuedAt + expirationSeconds,
    iat: issuedAt,
    iss: signer.issuer,
    jti: randomUUID(),
    "kubernetes.io": {
      namespace,
      node,
      pod: pod ?? inventedPod(namespace, serviceAccount),
      serviceaccount: { name: serviceAccount, uid: account },
    },
    nbf: issuedAt,
    sub: `system:serviceaccount:${namespace}:${serviceAccount}`,
  })
    .setProtectedHeader({ alg: "RS256", kid: signer.key.id })
    .sign(signer.key.privateKey);
}
