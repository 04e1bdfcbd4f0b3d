import type { Socket } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { causeOf, messageOf, OperatorError } from "../foundation/errors.ts";

/** Istio's names: without one, every usual client and server is served. */
export const compliancePolicies = ["", "pqc"] as const;

/** Which TLS versions and key exchanges are allowed (`COMPLIANCE_POLICY`). */
export type CompliancePolicy = (typeof compliancePolicies)[number];

/** The hybrid of X25519 and ML-KEM-768 (draft-ietf-tls-ecdhe-mlkem). */
export const postQuantumGroup = "X25519MLKEM768";

/** Node's `--tls-min-v1.3` is obeyed; a minimum below TLS 1.2 is raised. */
const leastVersion = tls.DEFAULT_MIN_VERSION === "TLSv1.3" ? "TLSv1.3" : "TLSv1.2";

/** OpenSSL's form since 3.5: a client sends a key for each group with an asterisk, and a server prefers the first tuple. */
const classicalGroups = "X25519:P-256:P-384:P-521";
const usualGroups = `*${postQuantumGroup}/*${classicalGroups}`;

/** Go's setting, by which pilot-agent leaves the post-quantum key out of its first message as well. */
const withoutPostQuantum = "GODEBUG=tlsmlkem=0";

/** What to try when a server never answers the first message of TLS. */
export const handshakeHint = `did not finish the TLS handshake in time: if something on the way drops a first message of more than one packet, set ${withoutPostQuantum}`;

/** Whether a server has taken the connection, and not finished the handshake of TLS. */
export const isInHandshake = (
  socket: (Socket & { readonly secureConnecting?: boolean }) | null | undefined,
): boolean => socket?.connecting === false && socket.secureConnecting === true;

/**
 * Follows a client's connection, also beyond its end.
 *
 * @returns Whether a server has taken it, and not finished the handshake of TLS.
 */
export function watchHandshake(socket: Socket): () => boolean {
  if (!(socket instanceof tls.TLSSocket)) return () => false;
  // A tunnel is connected already.
  let isPending = !socket.connecting;
  socket.once("connect", () => (isPending = true));
  socket.once("secureConnect", () => (isPending = false));
  return () => isPending;
}

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
 * libraries too. By default {@link postQuantumGroup} comes first, and TLS 1.2 and classical groups are served, unless
 * Node was started with `--tls-min-v1.3`.
 *
 * @param environment `COMPLIANCE_POLICY` of `pqc` is Istio's: TLS 1.3, that group alone, AES-GCM. `GODEBUG` with
 *   `tlsmlkem=0` is Go's: no post-quantum group, so that a client's first message fits one packet.
 * @throws OperatorError
 */
export function followCompliancePolicy({
  COMPLIANCE_POLICY: value = "",
  GODEBUG: settings = "",
}: Readonly<Record<string, string | undefined>>): void {
  const isClassical = settings.split(",").includes("tlsmlkem=0");
  const fault = policyFault(value);
  if (fault !== undefined) throw new OperatorError(`COMPLIANCE_POLICY: ${fault}`);
  const isOffered = offersPostQuantum();
  if (value === "pqc") {
    if (!isOffered) throw new OperatorError(`COMPLIANCE_POLICY: ${unable()}`);
    if (isClassical)
      throw new OperatorError(`COMPLIANCE_POLICY: pqc contradicts ${withoutPostQuantum}`);
    tls.DEFAULT_MIN_VERSION = "TLSv1.3";
    tls.DEFAULT_ECDH_CURVE = postQuantumGroup;
    tls.DEFAULT_CIPHERS = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
    return;
  }
  tls.DEFAULT_MIN_VERSION = leastVersion;
  if (isOffered) tls.DEFAULT_ECDH_CURVE = isClassical ? classicalGroups : usualGroups;
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

/** The sentence for a failed call. OpenSSL's own would name a line of its sources. */
export function callFault(error: unknown): string {
  return causeOf(error).endsWith("TLS_ALERT_HANDSHAKE_FAILURE")
    ? "the peer has no TLS version, group or cipher suite in common with this program"
    : messageOf(error);
}

/**
 * The group of a finished handshake. Node shows it to clients only, so for servers it is read from OpenSSL's own
 * encoding of the session, whose last element has the tag 19 (`ssl_asn1.c`, kex_group).
 *
 * @returns The name of the group, or `other`.
 */
export function groupOf(socket: TLSSocket): string {
  const session = socket.getSession()?.toString("hex") ?? "";
  const [, group = ""] = /b3(?:030201|040202)([0-9a-f]{2,4})$/.exec(session) ?? [];
  return groupNames.get(group) ?? "other";
}
