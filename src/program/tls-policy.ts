import tls, { type TLSSocket } from "node:tls";
import { causeOf, messageOf, OperatorError } from "../foundation/errors.ts";

/** Istio's names: without one, every usual client and server is served. */
export const compliancePolicies = ["", "pqc"] as const;

export type CompliancePolicy = (typeof compliancePolicies)[number];

/** The hybrid of X25519 and ML-KEM-768 (draft-ietf-tls-ecdhe-mlkem). */
export const postQuantumGroup = "X25519MLKEM768";

/** OpenSSL's form since 3.5: a client sends a key for each group with an asterisk, and a server prefers the first tuple. */
const usualGroups = `*${postQuantumGroup}/*X25519:P-256:P-384:P-521`;

/** The code points of groups (IANA, TLS Supported Groups) that this process may agree on. */
const groupNames: ReadonlyMap<string, string> = new Map([
  ["11ec", postQuantumGroup],
  ["1d", "X25519"],
  ["17", "P-256"],
  ["18", "P-384"],
  ["19", "P-521"],
]);

/** Whether the TLS library of this process knows the group. */
export function offersPostQuantum(): boolean {
  try {
    tls.createSecureContext({ ecdhCurve: postQuantumGroup });
    return !("bun" in process.versions || "deno" in process.versions);
  } catch {
    return false;
  }
}

/**
 * Sets the TLS of this process, before it opens the first connection: every listener and every client, those of
 * libraries too. By default {@link postQuantumGroup} comes first, and TLS 1.2 and classical groups are served.
 *
 * @param value `COMPLIANCE_POLICY`. `pqc` is Istio's: TLS 1.3, that group alone, AES-GCM.
 * @throws OperatorError
 */
export function followCompliancePolicy(value = ""): void {
  const fault = policyFault(value);
  if (fault !== undefined) throw new OperatorError(`COMPLIANCE_POLICY: ${fault}`);
  const isOffered = offersPostQuantum();
  if (value === "pqc") {
    if (!isOffered) throw new OperatorError(`COMPLIANCE_POLICY: ${unable()}`);
    tls.DEFAULT_MIN_VERSION = "TLSv1.3";
    tls.DEFAULT_ECDH_CURVE = postQuantumGroup;
    tls.DEFAULT_CIPHERS = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
    return;
  }
  tls.DEFAULT_MIN_VERSION = "TLSv1.2";
  if (isOffered) tls.DEFAULT_ECDH_CURVE = usualGroups;
}

/** Why a value is no policy of this program; `undefined` for one that is. */
export function policyFault(value: string): string | undefined {
  if (compliancePolicies.some((each) => each === value)) return undefined;
  return /^fips-140-[23]$/.test(value)
    ? `${value} needs a validated module, which neither Node nor Workers is; leave it out, or use pqc`
    : 'must be "pqc" or be left out';
}

const unable = (): string =>
  `pqc needs Node with OpenSSL 3.5 for ${postQuantumGroup}, and this runtime has ${process.versions.openssl}`;

/** Codes of a server that has nothing in common with a client's first message. */
const disagreements: ReadonlyMap<unknown, string> = new Map([
  ["ERR_SSL_NO_SUITABLE_KEY_SHARE", postQuantumGroup],
  ["ERR_SSL_UNSUPPORTED_PROTOCOL", "TLS 1.3"],
  ["ERR_SSL_NO_SHARED_CIPHER", "AES-GCM"],
]);

/** A sentence about a client whom `pqc` has refused; `undefined` for every other fault of a handshake. */
export function refusedByPolicy(error: NodeJS.ErrnoException): string | undefined {
  const lacking = disagreements.get(error.code);
  if (lacking === undefined || tls.DEFAULT_ECDH_CURVE !== postQuantumGroup) return undefined;
  return `COMPLIANCE_POLICY = pqc: a client without ${lacking} was refused; more of the next minute are only counted`;
}

/** The words of a client about its failed call: those of OpenSSL name a line of its sources. */
export function callFault(error: unknown): string {
  return causeOf(error).endsWith("TLS_ALERT_HANDSHAKE_FAILURE")
    ? "the peer has no TLS version, group or cipher suite in common with this program"
    : messageOf(error);
}

/**
 * The group of a finished handshake. Node tells it to clients alone, so it is read from OpenSSL's own encoding of
 * the session, whose last element has the tag 19 (`ssl_asn1.c`, kex_group).
 *
 * @returns The name of the group, or `other`.
 */
export function groupOf(socket: TLSSocket): string {
  const session = socket.getSession()?.toString("hex") ?? "";
  const [, group = ""] = /b3(?:030201|040202)([0-9a-f]{2,4})$/.exec(session) ?? [];
  return groupNames.get(group) ?? "other";
}
